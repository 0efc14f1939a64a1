// Ids of tool calls.
#pragma once
#include <string>
#include <string_view>

namespace loci::server {

// "call_" and 24 letters and digits; with `n_bytes`, that many letters and digits alone. The same arguments give the
// same id.
std::string call_id(std::string_view seed, int call, int n_bytes = 0);

}  // namespace loci::server
