// Base-logits files (--kl-divergence-base), interchangeable with llama.cpp: the distribution at every scored position
// of a text, in 16-bit codes.
//   "_logits_"; u32 n_ctx; i32 n_vocab; i32 n_chunks; i32 tokens[n_chunks * n_ctx]
//   per chunk and scored position (n_ctx - 1 - n_ctx / 2 of them) a row of 2 * ((n_vocab + 1) / 2) + 4 u16:
//     f32 scale, f32 min_log_prob, u16 codes[n_vocab]:  log p = scale * code + min_log_prob
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace loci {

struct LogitsFileHeader {
  int64_t n_ctx = 0, n_vocab = 0, n_chunks = 0;
  std::vector<int32_t> tokens;  // [n_chunks * n_ctx] as tokenized; a BOS is put in place by whoever evaluates them

  int64_t rows_per_chunk() const { return n_ctx - 1 - n_ctx / 2; }
  int64_t row_codes() const { return 2 * ((n_vocab + 1) / 2) + 4; }  // u16 per row
};

// Writes beside `path` and renames when finished.
class LogitsWriter {
 public:
  LogitsWriter(const std::string& path, const LogitsFileHeader& header);
  ~LogitsWriter();  // removes an unfinished file
  LogitsWriter(const LogitsWriter&) = delete;
  LogitsWriter& operator=(const LogitsWriter&) = delete;
  void add(std::span<const float> logits);
  void finish();

 private:
  void put(const void* data, size_t bytes);
  std::string path_, temporary_;
  std::FILE* file_;
  std::vector<uint16_t> row_;
};

// Throws Error for files that are damaged or too short.
class LogitsReader {
 public:
  explicit LogitsReader(const std::string& path);
  const LogitsFileHeader& header() const { return header_; }
  // Natural-log probabilities of the next position: [n_vocab].
  std::span<const float> next();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  LogitsFileHeader header_;
  std::vector<uint16_t> row_;
  std::vector<float> log_probs_;
};

}  // namespace loci
