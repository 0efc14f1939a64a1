#include "engine/kv/cache_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernels/check.h"
#include "kernels/error.h"

namespace loci {
namespace {

constexpr char kMagic[8] = {'l', 'o', 'c', 'i', '-', 'k', 'v', '\n'};
constexpr uint32_t kVersion = 2;

// All numbers little-endian, as on every machine this runs on. Followed by n_text bytes of text, int32
// tokens[n_tokens], the images of their pages in order, then the XXH3 of all bytes before it.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t page_size;
  uint64_t model;
  uint64_t n_tokens;
  uint64_t bytes_per_page;  // over all layers
  uint32_t n_layers;
  uint32_t n_text;
  char k_format[16];
  char v_format[16];
  char arithmetic[64];
};
static_assert(sizeof(Header) == 144);

void set_text(char* field, size_t size, std::string_view text) {
  std::memset(field, 0, size);
  std::memcpy(field, text.data(), std::min(size - 1, text.size()));
}

Header make_header(const CacheIdentity& identity, const KvManager& kv, uint64_t n_tokens) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.page_size = static_cast<uint32_t>(kv.page_size());
  header.model = identity.model;
  header.n_tokens = n_tokens;
  header.n_layers = static_cast<uint32_t>(kv.n_layers());
  header.bytes_per_page = static_cast<uint64_t>(kv.page_bytes());
  set_text(header.k_format, sizeof header.k_format, name(kv.config().k_format));
  set_text(header.v_format, sizeof header.v_format, name(kv.config().v_format));
  set_text(header.arithmetic, sizeof header.arithmetic, identity.arithmetic);
  return header;
}

// Why a header does not fit ours, or an empty string.
std::string difference(const Header& found, const Header& expected) {
  const auto text = [](const char* field, size_t size) { return std::string(field, strnlen(field, size)); };
  if (std::memcmp(found.magic, kMagic, sizeof kMagic) != 0) return "not a cache file of this program";
  if (found.version != kVersion) return str("expected version ", kVersion, ", found ", found.version);
  if (found.model != expected.model) return "made with another model, or with other model or rope settings";
  if (std::memcmp(found.k_format, expected.k_format, sizeof found.k_format) != 0 ||
      std::memcmp(found.v_format, expected.v_format, sizeof found.v_format) != 0) {
    return str("expected K/V formats ", expected.k_format, "/", expected.v_format, ", found another pair");
  }
  if (found.page_size != expected.page_size)
    return str("expected page size ", expected.page_size, ", found ", found.page_size);
  if (std::memcmp(found.arithmetic, expected.arithmetic, sizeof found.arithmetic) != 0) {
    return str("expected K/V computed by '", text(expected.arithmetic, sizeof expected.arithmetic),
               "', found another instruction set or precision");
  }
  if (found.n_layers != expected.n_layers || found.bytes_per_page != expected.bytes_per_page) {
    return "its sizes are not those of this model";
  }
  return "";
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

[[nodiscard]] bool write_all(int fd, const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

[[nodiscard]] bool read_all(int fd, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::read(fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

[[nodiscard]] bool checksum_matches(int fd, uint64_t file_bytes) {
  if (::lseek(fd, 0, SEEK_SET) < 0) return false;
  std::vector<std::byte> buffer(1 << 20);
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  uint64_t digest = 0;
  for (uint64_t left = file_bytes - sizeof digest; left > 0;) {
    const size_t n = std::min<uint64_t>(left, buffer.size());
    if (!read_all(fd, buffer.data(), n)) return false;
    XXH3_64bits_update(&hash, buffer.data(), n);
    left -= n;
  }
  return read_all(fd, &digest, sizeof digest) && digest == XXH3_64bits_digest(&hash);
}

}  // namespace

void write_cache_file(const std::string& path, const CacheIdentity& identity, const KvManager& kv,
                      const KvSequence& sequence, std::string_view text, bool durable) {
  const std::string temporary = str(path, ".", ::getpid(), ".tmp");
  FileDescriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const auto refuse = [&] {
    const int error = errno;
    ::unlink(temporary.c_str());
    fail(ErrorKind::kInvalidInput, path, ": cannot write the cache file: ", std::strerror(error));
  };
  if (file.get() < 0) refuse();
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  bool ok = true;
  const auto put = [&](const void* data, size_t bytes) {
    XXH3_64bits_update(&hash, data, bytes);
    ok = ok && write_all(file.get(), data, bytes);
  };
  LOCI_CHECK(text.size() <= UINT32_MAX, "a text of ", text.size(), " bytes");
  Header header = make_header(identity, kv, sequence.tokens.size());
  header.n_text = static_cast<uint32_t>(text.size());
  put(&header, sizeof header);
  put(text.data(), text.size());
  put(sequence.tokens.data(), sequence.tokens.size() * sizeof(int32_t));
  std::vector<std::byte> image(static_cast<size_t>(kv.page_bytes()));
  const auto n_pages = static_cast<size_t>(kv.n_pages_for(static_cast<int64_t>(sequence.tokens.size())));
  for (size_t i = 0; i < n_pages && ok; ++i) {
    kv.read_page(sequence.pages[i], image);
    put(image.data(), image.size());
  }
  const uint64_t digest = XXH3_64bits_digest(&hash);
  ok = ok && write_all(file.get(), &digest, sizeof digest) && (!durable || ::fsync(file.get()) == 0) &&
       file.close() == 0;
  if (!ok || ::rename(temporary.c_str(), path.c_str()) != 0) refuse();
}

CacheFile read_cache_file(const std::string& path, const CacheIdentity& identity, const CacheNamespace& ns,
                          int32_t vocab_size, KvManager& kv) {
  CacheFile result;
  const auto why = [&](auto&&... parts) {
    result.why_not = str(path, ": ", parts...);
    return result;
  };
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) return why(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return why("not a regular file");
  Header header{};
  if (info.st_size < static_cast<off_t>(sizeof header) || !read_all(file.get(), &header, sizeof header)) {
    return why("not a cache file of this program: only ", info.st_size, " bytes");
  }
  if (std::string reason = difference(header, make_header(identity, kv, 0)); !reason.empty()) return why(reason);

  // Sizes are settled against the real file before anything is sized by them.
  const auto page_size = static_cast<uint64_t>(kv.page_size());
  const uint64_t file_bytes = static_cast<uint64_t>(info.st_size);
  if (header.n_tokens > file_bytes) return why("damaged: token count ", header.n_tokens);
  const uint64_t n_pages = (header.n_tokens + page_size - 1) / page_size;
  const auto expected = static_cast<unsigned __int128>(sizeof header) + header.n_text +
                        header.n_tokens * sizeof(int32_t) +
                        static_cast<unsigned __int128>(n_pages) * header.bytes_per_page + sizeof(uint64_t);
  if (expected != file_bytes) {
    return why("damaged: expected ", static_cast<uint64_t>(expected), " bytes, found ", file_bytes);
  }
  if (static_cast<int64_t>(n_pages) > kv.n_pages()) {
    return why("holds ", header.n_tokens, " tokens, the context has room for ",
               kv.n_pages() * static_cast<int64_t>(page_size));
  }
  // The checksum before the first page is taken: a damaged file costs no cached prefix its pages.
  if (!checksum_matches(file.get(), file_bytes)) return why("damaged: its checksum does not match");
  if (::lseek(file.get(), sizeof header, SEEK_SET) < 0) return why(std::strerror(errno));

  KvSequence sequence = kv.find({}, ns);
  if (!kv.reserve(sequence, static_cast<int64_t>(header.n_tokens))) {
    kv.release(std::move(sequence));
    return why("no free pages for ", header.n_tokens, " tokens");
  }
  result.text.resize(header.n_text);
  sequence.tokens.resize(header.n_tokens);
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  bool ok = true;
  const auto get = [&](void* data, size_t bytes) {
    ok = ok && read_all(file.get(), data, bytes);
    if (ok) XXH3_64bits_update(&hash, data, bytes);
  };
  XXH3_64bits_update(&hash, &header, sizeof header);
  get(result.text.data(), header.n_text);
  get(sequence.tokens.data(), header.n_tokens * sizeof(int32_t));
  std::vector<std::byte> image(static_cast<size_t>(kv.page_bytes()));
  for (size_t i = 0; i < n_pages && ok; ++i) {
    get(image.data(), image.size());
    kv.write_page(sequence.pages[i], image);
  }
  uint64_t digest = 0;
  ok = ok && read_all(file.get(), &digest, sizeof digest) && digest == XXH3_64bits_digest(&hash);
  for (const int32_t token : sequence.tokens) ok = ok && token >= 0 && token < vocab_size;
  if (!ok) {
    kv.release(std::move(sequence));
    result.text.clear();
    return why("damaged: its checksum does not match");
  }
  result.tokens = sequence.tokens;
  kv.keep(std::move(sequence));
  return result;
}

}  // namespace loci
