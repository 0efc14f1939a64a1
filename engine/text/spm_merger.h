// SpmMerger: SentencePiece's BPE rule without the library: always join the adjacent pair whose concatenation is the
// token of highest score, leftmost first; what is no token becomes byte tokens. Serves vocabularies that the library
// cannot hold and is its twin in the tests.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/vocabulary.h"

namespace loci {

class SpmMerger {
 public:
  // `vocab` must outlive this.
  explicit SpmMerger(const Vocabulary& vocab);

  // Appends the ids of valid UTF-8 text. Spaces are taken as U+2581.
  void encode(std::string_view text, std::vector<int32_t>& out) const;
  // Appends byte tokens; bytes without one become the unknown token (one for the whole stretch) or nothing.
  void emit_bytes(std::string_view bytes, std::vector<int32_t>& out) const;

  // Where the stretch of `text` that begins at `begin` ends: before a space that no token joins to the character in
  // front of it. What merges on one side of such a border cannot depend on the other side.
  size_t segment_end(std::string_view text, size_t begin) const;

  // Text can become this token by merging: a normal, user-defined or unused token, not empty, and the first of its
  // spelling. False for -1.
  bool is_mergeable(int32_t id) const;
  // Each of the 256 bytes has exactly one byte token, spelled <0xHH> in capitals.
  bool has_canonical_bytes() const { return has_canonical_bytes_; }

 private:
  void note_before_space(std::string_view text);
  int32_t find(std::string_view text) const;  // mergeable token of that spelling or -1

  const Vocabulary& vocab_;
  std::array<int32_t, 256> byte_tokens_;
  bool has_canonical_bytes_ = false;
  size_t max_length_ = 0;                  // of a mergeable token, bytes
  std::vector<std::string> before_space_;  // sorted: characters that some token joins to a following space mark
};

}  // namespace loci
