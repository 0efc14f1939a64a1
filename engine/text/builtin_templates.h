// Chat templates by name, for models whose file has none and for --chat-template NAME. Written from the formats that
// the models' publishers document; the begin token is left to the tokenizer.
#pragma once
#include <string>
#include <vector>

namespace loci {

// Jinja source, nullptr when there is none of that name.
const char* builtin_template(const std::string& name);
std::vector<std::string> builtin_template_names();

}  // namespace loci
