#include "engine/spec/mode_names.h"

#include <algorithm>

namespace loci {
namespace {

SpeculationMode merged(SpeculationMode a, SpeculationMode b) {
  if (a == b || b == SpeculationMode::kNone) return a;
  return a == SpeculationMode::kNone ? b : SpeculationMode::kAuto;
}

}  // namespace

NamedSpeculation read_speculation_names(std::string_view list) {
  NamedSpeculation found;
  const auto note = [](std::optional<std::string>& first, std::string_view name) {
    if (!first) first = name;
  };
  for (bool more = true; more;) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view name = list.substr(0, comma);
    more = comma < list.size();
    list.remove_prefix(more ? comma + 1 : comma);
    if (name == "none") continue;
    if (name == "auto") {
      found.mode = SpeculationMode::kAuto;
    } else if (name == "draft" || name == "draft-simple") {
      found.mode = merged(found.mode, SpeculationMode::kDraft);
    } else if (name == "ngram" || name == "ngram-simple") {
      found.mode = merged(found.mode, SpeculationMode::kNgram);
    } else if (name.substr(0, 6) == "ngram-") {
      note(found.taken_as_ngram, name);
      found.mode = merged(found.mode, SpeculationMode::kNgram);
    } else if (name.substr(0, 6) == "draft-") {
      note(found.not_done, name);
    } else {
      note(found.unknown, name);
    }
  }
  return found;
}

}  // namespace loci
