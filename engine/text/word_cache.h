// WordCache: ids of words met earlier in the same encode() call. Most words of a text occur again and again.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace loci {

class WordCache {
 public:
  // Appends the ids of `word`: copied from an earlier place in `out`, else made by encode(word, out). `word` must
  // live, and `out` must only grow, as long as the cache is used.
  template <typename Encode>
  void append(std::string_view word, std::vector<int32_t>& out, Encode&& encode) {
    constexpr size_t kMaxLength = 32, kMaxWords = size_t{1} << 18;
    if (word.size() > kMaxLength) return encode(word, out);
    if (const auto known = seen_.find(word); known != seen_.end()) {
      for (size_t i = known->second.begin; i < known->second.end; ++i) out.push_back(out[i]);
      return;
    }
    const size_t begin = out.size();
    encode(word, out);
    if (seen_.size() < kMaxWords) seen_.emplace(word, Range{begin, out.size()});
  }

 private:
  struct Range {
    size_t begin, end;  // in `out`
  };
  std::unordered_map<std::string_view, Range> seen_;
};

}  // namespace loci
