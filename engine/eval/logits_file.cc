#include "engine/eval/logits_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "engine/eval/perplexity.h"
#include "kernels/error.h"

namespace loci {
namespace {

constexpr char kMagic[8] = {'_', 'l', 'o', 'g', 'i', 't', 's', '_'};
constexpr float kSpan = 16;  // logits further below the largest one are cut off

}  // namespace

LogitsWriter::LogitsWriter(const std::string& path, const LogitsFileHeader& header)
    : path_(path),
      temporary_(str(path, ".", ::getpid(), ".tmp")),
      file_(std::fopen(temporary_.c_str(), "wb")),
      row_(static_cast<size_t>(header.row_codes()), 0) {
  if (file_ == nullptr) fail(ErrorKind::kInvalidInput, path_, ": cannot write: ", std::strerror(errno));
  const auto n_ctx = static_cast<uint32_t>(header.n_ctx);
  const int32_t sizes[2] = {static_cast<int32_t>(header.n_vocab), static_cast<int32_t>(header.n_chunks)};
  put(kMagic, sizeof kMagic);
  put(&n_ctx, sizeof n_ctx);
  put(sizes, sizeof sizes);
  put(header.tokens.data(), header.tokens.size() * sizeof(int32_t));
}

LogitsWriter::~LogitsWriter() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  ::unlink(temporary_.c_str());
}

void LogitsWriter::put(const void* data, size_t bytes) {
  if (std::fwrite(data, 1, bytes, file_) != bytes) {
    fail(ErrorKind::kInvalidInput, path_, ": cannot write: ", std::strerror(errno));
  }
}

void LogitsWriter::add(std::span<const float> logits) {
  const auto [lowest, highest] = std::minmax_element(logits.begin(), logits.end());
  const float top = *highest;
  const float bottom = std::max(*lowest, top - kSpan);
  const float scale = (top - bottom) / 65535;
  const auto min_log_prob = static_cast<float>(bottom - log_sum_exp(logits));
  std::memcpy(row_.data(), &scale, sizeof scale);
  std::memcpy(row_.data() + 2, &min_log_prob, sizeof min_log_prob);
  const float inverse = scale == 0 ? 0 : 1 / scale;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float above = logits[i] - bottom;
    row_[4 + i] = above > 0 ? static_cast<uint16_t>(std::min(65535.0f, std::nearbyint(above * inverse))) : 0;
  }
  put(row_.data(), row_.size() * sizeof row_[0]);
}

void LogitsWriter::finish() {
  const bool ok = std::fclose(file_) == 0;
  file_ = nullptr;
  if (!ok || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    fail(ErrorKind::kInvalidInput, path_, ": cannot write: ", std::strerror(error));
  }
}

LogitsReader::LogitsReader(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "rb")) {
  if (file_ == nullptr) fail(ErrorKind::kNotFound, path, ": ", std::strerror(errno));
  struct stat info {};
  char magic[sizeof kMagic];
  uint32_t n_ctx = 0;
  int32_t sizes[2] = {};
  const auto get = [&](void* data, size_t bytes) { return std::fread(data, 1, bytes, file_.get()) == bytes; };
  if (::fstat(::fileno(file_.get()), &info) != 0 || !S_ISREG(info.st_mode) || !get(magic, sizeof magic) ||
      std::memcmp(magic, kMagic, sizeof kMagic) != 0 || !get(&n_ctx, sizeof n_ctx) || !get(sizes, sizeof sizes)) {
    fail(ErrorKind::kInvalidInput, path, ": not a base-logits file");
  }
  header_.n_ctx = n_ctx;
  header_.n_vocab = sizes[0];
  header_.n_chunks = sizes[1];
  constexpr int64_t kMost = int64_t{1} << 28;
  if (n_ctx < 4 || n_ctx > kMost || sizes[0] < 1 || sizes[0] > kMost || sizes[1] < 1) {
    fail(ErrorKind::kInvalidInput, path, ": damaged header: context ", n_ctx, ", vocabulary ", sizes[0], ", chunks ",
         sizes[1]);
  }
  const auto per_chunk = static_cast<unsigned __int128>(header_.n_ctx) * sizeof(int32_t) +
                         static_cast<unsigned __int128>(header_.rows_per_chunk()) *
                             static_cast<uint64_t>(header_.row_codes()) * sizeof(uint16_t);
  const unsigned __int128 expected = 20 + per_chunk * static_cast<uint64_t>(header_.n_chunks);
  if (expected != static_cast<uint64_t>(info.st_size)) {
    fail(ErrorKind::kInvalidInput, path, ": damaged: its size of ", info.st_size, " bytes does not fit its header (",
         header_.n_chunks, " chunks of ", header_.n_ctx, " tokens)");
  }
  header_.tokens.resize(static_cast<size_t>(header_.n_chunks * header_.n_ctx));
  if (!get(header_.tokens.data(), header_.tokens.size() * sizeof(int32_t))) {
    fail(ErrorKind::kInvalidInput, path, ": cannot read: ", std::strerror(errno));
  }
  row_.resize(static_cast<size_t>(header_.row_codes()));
  log_probs_.resize(static_cast<size_t>(header_.n_vocab));
}

std::span<const float> LogitsReader::next() {
  if (std::fread(row_.data(), sizeof row_[0], row_.size(), file_.get()) != row_.size()) {
    fail(ErrorKind::kInvalidInput, path_, ": ends before its last row");
  }
  float scale = 0, min_log_prob = 0;
  std::memcpy(&scale, row_.data(), sizeof scale);
  std::memcpy(&min_log_prob, row_.data() + 2, sizeof min_log_prob);
  if (!std::isfinite(scale) || !std::isfinite(min_log_prob)) fail(ErrorKind::kInvalidInput, path_, ": damaged row");
  for (size_t i = 0; i < log_probs_.size(); ++i) log_probs_[i] = scale * row_[4 + i] + min_log_prob;
  return log_probs_;
}

}  // namespace loci
