// ArchReader: what the files of archs/ share. Every number is range-checked right after it is read, so that no
// later code divides by, multiplies by or allocates for something that a damaged file made up.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/arch.h"
#include "gguf/metadata.h"

namespace loci {

class ArchReader {
 public:
  explicit ArchReader(const gguf::Metadata& metadata);

  // `suffix` follows the architecture's name: "attention.head_count" -> "llama.attention.head_count".
  std::string key(std::string_view suffix) const;
  bool has(std::string_view suffix) const { return metadata_.has(key(suffix)); }

  // Integers in [low, high]; the forms with `missing` return it when the key is absent.
  int64_t integer(std::string_view suffix, int64_t low, int64_t high) const;
  int64_t integer(std::string_view suffix, int64_t low, int64_t high, int64_t missing) const;
  // One value for all layers or an array with one value per block. Empty when the key is absent.
  std::vector<int64_t> per_layer(std::string_view suffix, int64_t low, int64_t high) const;
  // Finite numbers in (low, high].
  double positive(std::string_view suffix, double high) const;
  double positive(std::string_view suffix, double high, double missing) const;
  // 0 when the key is absent or 0.
  double positive_or_off(std::string_view suffix, double high) const;
  std::optional<std::string> text(std::string_view suffix) const { return metadata_.find_string(key(suffix)); }
  std::optional<std::vector<int64_t>> integers(std::string_view suffix) const {
    return metadata_.find_ints(key(suffix));
  }

  int n_layers() const { return n_layers_; }  // of the trunk
  const gguf::Metadata& metadata() const { return metadata_; }
  [[noreturn]] void refuse(std::string_view suffix, std::string_view expected, std::string_view found) const;

  // The keys that all architectures share: sizes, layers, norms, multipliers, one rope for all layers.
  ArchSpec common() const;
  // Windows: `windowed[i]` says whether layer i sees only the last `window` tokens. Those layers rotate by
  // rope.freq_base_swa (`missing_base` when absent) without scaling.
  void apply_window(ArchSpec& spec, int window, const std::vector<bool>& windowed, double missing_base) const;

 private:
  double freq_base(std::string_view suffix, double missing) const;
  RopeSpec rope(int head_dim, int64_t n_ctx_train) const;

  const gguf::Metadata& metadata_;
  std::string arch_;
  int n_blocks_ = 0;  // block_count
  int n_layers_ = 0;
};

}  // namespace loci
