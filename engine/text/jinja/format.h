// Python's two string formatting languages: "%s" % args and "{}".format(args).
#pragma once
#include "engine/text/jinja/runtime.h"

namespace loci::jinja {

Value format_percent(Runtime& runtime, const Value& format, const Value& args);
// args.positional[0] is the format.
Value format_braces(Runtime& runtime, const Args& args);

}  // namespace loci::jinja
