// Names of speculation modes, as --spec-type and the body field speculative.type take them.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "engine/request.h"

namespace loci {

struct NamedSpeculation {
  SpeculationMode mode = SpeculationMode::kNone;
  // The first name of each kind, if any.
  std::optional<std::string> unknown;         // to everybody
  std::optional<std::string> not_done;        // llama.cpp's, and not there: "draft-eagle3"
  std::optional<std::string> taken_as_ngram;  // another kind of n-gram lookup: "ngram-mod"
};

// "none", "auto", or a list of "ngram" and "draft" (also "ngram-simple", "draft-simple").
NamedSpeculation read_speculation_names(std::string_view list);

}  // namespace loci
