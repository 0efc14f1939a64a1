#include "gguf/writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "gguf/printable.h"
#include "kernels/check.h"
#include "kernels/error.h"

namespace loci::gguf {
namespace {

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_string(std::string& out, std::string_view text) {
  put<uint64_t>(out, text.size());
  out.append(text);
}

void put_int(std::string& out, ValueType type, uint64_t value) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return put(out, static_cast<uint8_t>(value));
    case ValueType::kU16:
    case ValueType::kI16:
      return put(out, static_cast<uint16_t>(value));
    case ValueType::kU32:
    case ValueType::kI32:
      return put(out, static_cast<uint32_t>(value));
    default:
      return put(out, value);
  }
}

void put_float(std::string& out, ValueType type, double value) {
  if (type == ValueType::kF32) {
    put(out, static_cast<float>(value));
  } else {
    put(out, value);
  }
}

// Type id and value, as they stand after the key.
std::string encoded(const Value& value) {
  std::string out;
  put(out, static_cast<uint32_t>(value.type));
  if (value.type == ValueType::kArray) {
    put(out, static_cast<uint32_t>(value.element_type));
    put<uint64_t>(out, value.array_size());
  }
  const ValueType element = value.type == ValueType::kArray ? value.element_type : value.type;
  struct Put {
    std::string& out;
    ValueType type;
    void operator()(int64_t item) { put_int(out, type, static_cast<uint64_t>(item)); }
    void operator()(uint64_t item) { put_int(out, type, item); }
    void operator()(double item) { put_float(out, type, item); }
    void operator()(bool item) { put_int(out, type, item ? 1 : 0); }
    void operator()(const std::string& item) { put_string(out, item); }
    void operator()(const ArrayBytes& array) {
      out.append(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
    }
    void operator()(const std::vector<int64_t>& items) {
      for (const int64_t item : items) (*this)(item);
    }
    void operator()(const std::vector<double>& items) {
      for (const double item : items) (*this)(item);
    }
    void operator()(const std::vector<std::string_view>& items) {
      for (const std::string_view item : items) put_string(out, item);
    }
  };
  std::visit(Put{out, element}, value.data);
  return out;
}

template <typename T>
Value scalar(ValueType type, T value) {
  return Value{type, type, value};
}

// A new file that takes the place of `path` on commit(). Until then it has no name where the file system allows that
// (O_TMPFILE), so that nothing is left behind even when the process is killed; elsewhere it has a name beside `path`.
class PendingFile {
 public:
  explicit PendingFile(const std::string& path) : path_(path), temporary_(str(path, ".tmp-", ::getpid())) {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {  // renaming would replace a device
      fail(ErrorKind::kInvalidInput, printable(path_, 4096), ": exists and is not a regular file");
    }
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    fd_ = ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    if (fd_ >= 0) return;
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0) fail_io("cannot be created");
    named_ = true;
  }
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;
  ~PendingFile() {
    if (fd_ >= 0) ::close(fd_);
    if (named_) ::unlink(temporary_.c_str());
  }

  void write(const void* data, size_t size) {
    const char* next = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t written = ::write(fd_, next, std::min<size_t>(size, size_t{1} << 30));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_io("cannot be written");
      next += written;
      size -= static_cast<size_t>(written);
    }
  }

  void commit() {
    if (::fsync(fd_) != 0) fail_io("cannot be written");
    if (!named_) {
      ::unlink(temporary_.c_str());
      const std::string source = str("/proc/self/fd/", fd_);
      const int linked = ::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW);
      if (linked != 0) fail_io("cannot be given its name");
      named_ = true;
    }
    const int closed = ::close(std::exchange(fd_, -1));
    if (closed != 0) fail_io("cannot be written");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_io("cannot be renamed into place");
    named_ = false;
  }

 private:
  [[noreturn]] void fail_io(std::string_view what) const {
    fail(ErrorKind::kInvalidInput, printable(path_, 4096), ": ", what, ": ", std::strerror(errno));
  }

  std::string path_;
  std::string temporary_;
  int fd_ = -1;
  bool named_ = false;  // `temporary_` exists and is ours
};

uint64_t padding(uint64_t size, uint64_t alignment) { return (alignment - size % alignment) % alignment; }

}  // namespace

struct Writer::Impl {
  struct Tensor {
    std::string name;
    DType type;
    std::vector<int64_t> ne;
    std::function<void(std::span<std::byte>)> fill;
    uint64_t n_bytes;
  };
  std::vector<std::pair<std::string, std::string>> pairs;  // key, encoded type and value
  std::vector<Tensor> tensors;
  uint64_t alignment = 32;

  std::string header() const;
};

std::string Writer::Impl::header() const {
  std::string out = "GGUF";
  put<uint32_t>(out, 3);
  put<uint64_t>(out, tensors.size());
  put<uint64_t>(out, pairs.size());
  for (const auto& [key, value] : pairs) {
    put_string(out, key);
    out += value;
  }
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    put_string(out, tensor.name);
    put(out, static_cast<uint32_t>(tensor.ne.size()));
    for (const int64_t dim : tensor.ne) put(out, static_cast<uint64_t>(dim));
    put(out, static_cast<uint32_t>(tensor.type));
    put(out, offset);
    offset += tensor.n_bytes + padding(tensor.n_bytes, alignment);
  }
  out.append(padding(out.size(), alignment), '\0');
  return out;
}

Writer::Writer() : impl_(std::make_unique<Impl>()) {}
Writer::~Writer() = default;

void Writer::set_u32(const std::string& key, uint32_t value) { set(key, scalar(ValueType::kU32, int64_t{value})); }
void Writer::set_i32(const std::string& key, int32_t value) { set(key, scalar(ValueType::kI32, int64_t{value})); }
void Writer::set_u64(const std::string& key, uint64_t value) { set(key, scalar(ValueType::kU64, value)); }
void Writer::set_f32(const std::string& key, float value) { set(key, scalar(ValueType::kF32, double{value})); }
void Writer::set_bool(const std::string& key, bool value) { set(key, scalar(ValueType::kBool, value)); }
void Writer::set_string(const std::string& key, const std::string& value) {
  set(key, scalar(ValueType::kString, value));
}

void Writer::set_strings(const std::string& key, const std::vector<std::string>& values) {
  set(key, Value{ValueType::kArray, ValueType::kString, std::vector<std::string_view>(values.begin(), values.end())});
}

void Writer::set_f32s(const std::string& key, const std::vector<float>& values) {
  set(key, Value{ValueType::kArray, ValueType::kF32, std::vector<double>(values.begin(), values.end())});
}

void Writer::set_i32s(const std::string& key, const std::vector<int32_t>& values) {
  set(key, Value{ValueType::kArray, ValueType::kI32, std::vector<int64_t>(values.begin(), values.end())});
}

void Writer::set(const std::string& key, const Value& value) {
  LOCI_CHECK(!key.empty(), "empty metadata key");
  if (key == "general.alignment") {
    const auto* number = std::get_if<int64_t>(&value.data);
    LOCI_CHECK(number != nullptr && *number >= 8 && (*number & (*number - 1)) == 0, "general.alignment");
    impl_->alignment = static_cast<uint64_t>(*number);
  }
  auto& pairs = impl_->pairs;
  const auto place = std::find_if(pairs.begin(), pairs.end(), [&](const auto& pair) { return pair.first == key; });
  if (place != pairs.end()) {
    place->second = encoded(value);
  } else {
    pairs.emplace_back(key, encoded(value));
  }
}

void Writer::add_tensor(const std::string& name, DType type, std::vector<int64_t> ne,
                        std::function<void(std::span<std::byte>)> fill) {
  LOCI_CHECK(!name.empty() && name.size() <= 64, "tensor name '", name, "'");
  LOCI_CHECK(!ne.empty() && ne.size() <= 4 && *std::min_element(ne.begin(), ne.end()) > 0, "shape of tensor ", name);
  LOCI_CHECK(ne[0] % traits(type).block_elements == 0, "row length ", ne[0], " of tensor ", name);
  int64_t n_rows = 1;
  for (size_t i = 1; i < ne.size(); ++i) n_rows *= ne[i];
  const auto n_bytes = static_cast<uint64_t>(row_bytes(type, ne[0]) * n_rows);
  impl_->tensors.push_back({name, type, std::move(ne), std::move(fill), n_bytes});
}

void Writer::write(const std::string& path,
                   const std::function<void(size_t, size_t, const std::string&)>& progress) const {
  std::unordered_set<std::string_view> names;
  for (const Impl::Tensor& tensor : impl_->tensors) {
    LOCI_CHECK(names.insert(tensor.name).second, "tensor ", tensor.name, " added twice");
  }
  PendingFile out(path);
  const std::string header = impl_->header();
  out.write(header.data(), header.size());
  std::vector<std::byte> data;
  for (size_t i = 0; i < impl_->tensors.size(); ++i) {
    const Impl::Tensor& tensor = impl_->tensors[i];
    if (progress) progress(i, impl_->tensors.size(), tensor.name);
    data.assign(tensor.n_bytes + padding(tensor.n_bytes, impl_->alignment), std::byte{0});
    tensor.fill(std::span(data).first(tensor.n_bytes));
    out.write(data.data(), data.size());
  }
  out.commit();
}

}  // namespace loci::gguf
