#include "gguf/gguf.h"

#include <algorithm>
#include <cstdio>
#include <unordered_map>

#include "gguf/mapped_file.h"
#include "gguf/parse.h"
#include "gguf/printable.h"
#include "kernels/check.h"
#include "kernels/error.h"

namespace loci::gguf {
namespace {

// What "<prefix>-00002-of-00005.gguf" says: part 2 of 5.
struct SplitName {
  std::string prefix;  // path up to the first dash of the suffix
  int64_t part = 0;    // 1-based
  int64_t count = 0;
};

constexpr std::string_view kSuffixShape = "-00000-of-00000.gguf";  // 0 stands for a digit

std::optional<SplitName> split_name(const std::string& path) {
  if (path.size() <= kSuffixShape.size()) return std::nullopt;
  const size_t start = path.size() - kSuffixShape.size();
  for (size_t i = 0; i < kSuffixShape.size(); ++i) {
    const char c = path[start + i];
    if (kSuffixShape[i] == '0' ? c < '0' || c > '9' : c != kSuffixShape[i]) return std::nullopt;
  }
  const auto digits = [&](size_t at) { return std::stoll(path.substr(start + at, 5)); };
  return SplitName{path.substr(0, start), digits(1), digits(10)};
}

std::string part_path(const std::string& prefix, int64_t part, int64_t count) {
  char suffix[64];
  std::snprintf(suffix, sizeof(suffix), "-%05lld-of-%05lld.gguf", static_cast<long long>(part),
                static_cast<long long>(count));
  return prefix + suffix;
}

int64_t split_number(const Metadata& metadata) { return metadata.find_int("split.no").value_or(0); }
int64_t split_count(const Metadata& metadata) { return metadata.find_int("split.count").value_or(0); }

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

struct File::Impl {
  struct OpenPart {
    MappedFile file;
    Part part;
  };

  std::string path;
  std::vector<OpenPart> parts;  // parts[0].part.metadata is the model's
  std::vector<TensorView> tensors;
  std::unordered_map<std::string_view, size_t> index;  // keys are views into `tensors`
  std::vector<std::string> oddities;

  void open_part(const std::string& part_file, const OpenOptions& options) {
    MappedFile file = MappedFile::open(part_file, options.use_mmap);
    Part part = parse_part(file.bytes(), part_file);
    parts.push_back({std::move(file), std::move(part)});
  }
  void open_other_parts(const OpenOptions& options);
  void check_tensor_count() const;
  void collect();
  const MappedFile& file_of(std::span<const std::byte> range) const;
};

// The first part says how many there are; name, number and count of each must agree.
void File::Impl::open_other_parts(const OpenOptions& options) {
  const Metadata& first = parts[0].part.metadata;
  const int64_t number = split_number(first);
  const int64_t count = split_count(first);
  const auto name = split_name(path);
  const std::string shown = printable(path, 4096);
  if (number != 0) {
    const std::string hint = name ? str("; open ", printable(file_name(part_path(name->prefix, 1, name->count)), 4096))
                                  : std::string("; open the first part");
    fail(ErrorKind::kInvalidInput, shown, ": this is part ", number + 1, " of a model split into ", count, " files",
         hint);
  }
  if (count <= 1) {
    if (name && name->count > 1) {
      parts[0].part.oddities.push_back(
          str("named as part ", name->part, " of ", name->count, ", but holds no split.count: read as a whole model"));
    }
    return;
  }
  if (!name) {
    fail(ErrorKind::kInvalidInput, shown, ": split.count is ", count,
         ", so the other parts are needed: expected a file name that ends in ", part_path("", 1, count));
  }
  if (name->part != 1 || name->count != count) {
    fail(ErrorKind::kInvalidInput, shown, ": holds part 1 of ", count, ", but is named as part ", name->part, " of ",
         name->count);
  }
  for (int64_t i = 1; i < count; ++i) {
    const std::string other = part_path(name->prefix, i + 1, count);
    try {
      open_part(other, options);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNotFound) throw;
      fail(ErrorKind::kNotFound, printable(other, 4096), ": not found: part ", i + 1, " of ", count, " of the model");
    }
    const Metadata& metadata = parts.back().part.metadata;
    if (split_number(metadata) != i || split_count(metadata) != count) {
      fail(ErrorKind::kInvalidInput, printable(other, 4096), ": expected split.no ", i, " and split.count ", count,
           ", found ", split_number(metadata), " and ", split_count(metadata));
    }
  }
}

void File::Impl::check_tensor_count() const {
  const auto expected = parts[0].part.metadata.find_int("split.tensors.count");
  if (!expected) return;
  size_t found = 0;
  for (const OpenPart& open : parts) found += open.part.tensors.size();
  if (*expected < 0 || static_cast<uint64_t>(*expected) != found) {
    fail(ErrorKind::kInvalidInput, printable(path, 4096), ": split.tensors.count: expected ", *expected, " tensors in ",
         parts.size(), parts.size() == 1 ? " part" : " parts", ", found ", found);
  }
}

void File::Impl::collect() {
  size_t total = 0;
  for (const OpenPart& open : parts) total += open.part.tensors.size();
  tensors.reserve(total);
  for (OpenPart& open : parts) {
    for (TensorView& tensor : open.part.tensors) tensors.push_back(std::move(tensor));
    for (std::string& oddity : open.part.oddities) {
      oddities.push_back(parts.size() == 1 ? std::move(oddity)
                                           : str(printable(file_name(open.part.metadata.file()), 4096), ": ", oddity));
    }
    open.part.tensors.clear();
    open.part.oddities.clear();
  }
  index.reserve(total);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!index.emplace(tensors[i].name, i).second) {
      fail(ErrorKind::kInvalidInput, printable(path, 4096), ": tensor ", printable(tensors[i].name),
           ": found in two parts of the model");
    }
  }
}

File::File() : impl_(std::make_unique<Impl>()) {}
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;
File::~File() = default;

File File::open(const std::string& path, const OpenOptions& options) {
  File file;
  Impl& impl = *file.impl_;
  impl.path = path;
  impl.open_part(path, options);
  impl.open_other_parts(options);
  impl.check_tensor_count();
  impl.collect();
  return file;
}

const std::string& File::path() const { return impl_->path; }

std::vector<std::string> File::part_paths() const {
  std::vector<std::string> paths;
  for (const Impl::OpenPart& open : impl_->parts) paths.push_back(open.part.metadata.file());
  return paths;
}

uint32_t File::version() const { return impl_->parts[0].part.version; }
const Metadata& File::metadata() const { return impl_->parts[0].part.metadata; }
std::span<const TensorView> File::tensors() const { return impl_->tensors; }
std::span<const std::string> File::oddities() const { return impl_->oddities; }

const TensorView* File::find(std::string_view name) const {
  const auto entry = impl_->index.find(name);
  return entry == impl_->index.end() ? nullptr : &impl_->tensors[entry->second];
}

int64_t File::total_bytes() const {
  int64_t total = 0;
  for (const Impl::OpenPart& open : impl_->parts) total += static_cast<int64_t>(open.file.bytes().size());
  return total;
}

void File::release(const TensorView& tensor) const { release({tensor.data, static_cast<size_t>(tensor.n_bytes())}); }

const MappedFile& File::Impl::file_of(std::span<const std::byte> range) const {
  for (const OpenPart& open : parts) {
    const std::span<const std::byte> bytes = open.file.bytes();
    if (range.data() >= bytes.data() && range.data() < bytes.data() + bytes.size()) {
      LOCI_CHECK(range.size() <= static_cast<size_t>(bytes.data() + bytes.size() - range.data()), range.size());
      return open.file;
    }
  }
  LOCI_CHECK(false, "bytes that are not of this file");
}

void File::read(const std::byte* first, std::span<std::byte> out) const {
  const MappedFile& file = impl_->file_of({first, out.size()});
  file.read(static_cast<size_t>(first - file.bytes().data()), out);
}

void File::release(std::span<const std::byte> range) const { impl_->file_of(range).release(range); }

void File::release_metadata() const {
  for (const Impl::OpenPart& open : impl_->parts) {
    const std::span<const std::byte> bytes = open.file.bytes();
    const std::byte* end = bytes.data() + bytes.size();
    for (const TensorView& tensor : impl_->tensors) {
      if (tensor.data >= bytes.data() && tensor.data < end) end = tensor.data;
    }
    open.file.release({bytes.data(), end});
  }
}

}  // namespace loci::gguf
