// The two halves of the filter table.
#pragma once
#include <algorithm>
#include <span>
#include <string_view>

#include "engine/text/jinja/runtime.h"

namespace loci::jinja {

struct NamedBuiltin {
  std::string_view name;
  Builtin function;
};

// REQUIRES: `table` is sorted by name.
inline Builtin find_in(std::span<const NamedBuiltin> table, std::string_view name) {
  const auto it = std::lower_bound(table.begin(), table.end(), name,
                                   [](const NamedBuiltin& entry, std::string_view key) { return entry.name < key; });
  return it != table.end() && it->name == name ? it->function : nullptr;
}

Builtin find_text_filter(std::string_view name);
Builtin find_list_filter(std::string_view name);

}  // namespace loci::jinja
