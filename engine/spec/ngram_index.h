// NgramIndex: where has this ending been seen before, and what came next? (Prompt lookup decoding.)
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace loci {

class NgramIndex {
 public:
  // A place whose token continues an earlier occurrence of the context's last `length` tokens.
  struct Match {
    size_t next = 0;
    int length = 0;
  };

  // `capacity`: tokens kept; when twice as many have come the older half is forgotten. 0: no limit.
  explicit NgramIndex(size_t capacity = 0) : capacity_(capacity) {}

  void append(int32_t token);
  // The next token does not continue the one before: no match spans this border.
  void append_border();
  std::span<const int32_t> tokens() const { return tokens_; }

  // Places with the longest matches first, later ones first among equals; at most n, with different next tokens.
  // Matches longer than kMaxLength count as that long.
  std::vector<Match> find(std::span<const int32_t> context, int n) const;
  // Tokens from a match on, up to `n` or the next border.
  std::span<const int32_t> continuation(const Match& match, int n) const;

  static constexpr int kMaxLength = 32;

 private:
  void index(size_t next);

  size_t capacity_;
  std::vector<int32_t> tokens_;  // -1: border
  std::vector<size_t> earlier_;  // [n_tokens] the place before with the same two tokens in front, or kNone
  std::unordered_map<int32_t, size_t> after_one_;   // token -> latest place behind it
  std::unordered_map<uint64_t, size_t> after_two_;  // two tokens -> latest place behind them
};

}  // namespace loci
