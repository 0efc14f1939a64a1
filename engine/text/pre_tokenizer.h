// PreTokenizer: cuts text into the words within which byte-level BPE merges. Which rule a model needs is named by
// tokenizer.ggml.pre; the rules are in pre_tokenizer.cc, one entry each.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/pattern.h"

namespace loci {

class PreTokenizer {
 public:
  // nullptr when there is no rule of that name.
  static std::unique_ptr<PreTokenizer> find(std::string_view name);
  static std::vector<std::string> names();  // sorted

  // Appends the end offset, in bytes, of every word of `text`; words follow each other without gaps. Ill-formed
  // bytes count as U+FFFD when matching and stay what they are.
  void split(std::string_view text, std::vector<size_t>& word_ends) const;

  bool ignore_merges() const { return ignore_merges_; }  // a word that is a token is taken whole
  bool add_bos() const { return add_bos_; }              // default of tokenizer.ggml.add_bos_token

 private:
  PreTokenizer() = default;
  std::vector<Pattern> stages_;  // each cuts the pieces that the one before left
  bool ignore_merges_ = false, add_bos_ = false;
};

}  // namespace loci
