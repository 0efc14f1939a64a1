// Dates as text, in the C locale.
#pragma once
#include <string>
#include <string_view>

namespace loci::jinja {

// `now` is "YYYY-MM-DDTHH:MM:SS"; throws RenderError when it is not. Directives as in Python's strftime; one that is
// not known stays as it is written.
std::string format_time(std::string_view format, const std::string& now);
// The clock's local time in that form.
std::string local_time();

}  // namespace loci::jinja
