// Flags that scripts written for llama.cpp may carry and this build does not have: they are refused by name and
// reason, never ignored and never called unknown.
#pragma once
#include <string>
#include <string_view>

namespace loci::cli {

// Why `name` ("--lora", "-hf": any spelling) is not supported; empty when the flag is unknown to the table too.
std::string_view foreign_flag_reason(const std::string& name);

}  // namespace loci::cli
