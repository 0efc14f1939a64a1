#include "engine/kv/cache_file.h"

#include <fcntl.h>
#include <sys/file.h>
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
constexpr char kRecordMagic[8] = {'l', 'o', 'c', 'i', '-', 'r', 'e', 'c'};
constexpr uint32_t kVersion = 3;
constexpr uint32_t kWholeVersion = 2;   // one sequence behind the header, and a digest of all of it
constexpr uint32_t kWindowVersion = 4;  // as kVersion, with window pages

// All numbers little-endian, as on every machine this runs on. Followed by the XXH3 of the header, then by records.
// In version 2: by n_text bytes of text, int32 tokens[n_tokens], the images of their pages in order, then the XXH3 of
// all bytes before it.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t page_size;
  uint64_t model;
  uint64_t n_tokens;        // version 2 only
  uint64_t bytes_per_page;  // over all layers; with window pages over those that keep all
  uint32_t n_layers;
  uint32_t n_text;  // version 2 only
  char k_format[16];
  char v_format[16];
  char arithmetic[64];
};
static_assert(sizeof(Header) == 144);

// One save: what it keeps of the save before it, and what comes behind that. Followed by the new text, the new tokens,
// the images of all pages that hold a new token, and an XXH3 of record and body. Both digests are seeded with the
// digest before them, so that a record counts nowhere but in its place.
struct Record {
  char magic[8];
  uint64_t n_text_kept, n_text_new;      // bytes
  uint64_t n_tokens_kept, n_tokens_new;  // a page of which tokens are kept in part is written anew
  uint64_t digest;                       // of the fields above
};
static_assert(sizeof(Record) == 48);
constexpr size_t kRecordFields = sizeof(Record) - sizeof(uint64_t);

void set_text(char* field, size_t size, std::string_view text) {
  std::memset(field, 0, size);
  std::memcpy(field, text.data(), std::min(size - 1, text.size()));
}

Header make_header(const CacheIdentity& identity, const KvManager& kv) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kv.n_window_pages() > 0 ? kWindowVersion : kVersion;
  header.page_size = static_cast<uint32_t>(kv.page_size());
  header.model = identity.model;
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
  const bool has_windows = found.version == kWindowVersion;
  if (has_windows != (expected.version == kWindowVersion) &&
      (has_windows || found.version == kVersion || found.version == kWholeVersion)) {
    return str("layers with a sliding window: expected ", has_windows ? "all their tokens" : "those of the window",
               ", found ", has_windows ? "those of the window" : "all", " (--swa-full)");
  }
  if (!has_windows && found.version != kVersion && found.version != kWholeVersion) {
    return str("expected version ", kWholeVersion, " or ", kVersion, ", found ", found.version);
  }
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

// Pages whose window pages a record brings that makes n_tokens of n_tokens_kept: those that it brings and the token
// after the last one sees.
std::pair<uint64_t, uint64_t> windows_written(const KvManager& kv, uint64_t n_tokens_kept, uint64_t n_tokens) {
  const auto end = static_cast<uint64_t>(kv.n_pages_for(static_cast<int64_t>(n_tokens)));
  if (kv.n_window_pages() == 0 || n_tokens_kept == n_tokens) return {end, end};
  const auto first_seen = static_cast<uint64_t>(kv.first_seen_page(static_cast<int64_t>(n_tokens)));
  return {std::max(first_seen, n_tokens_kept / static_cast<uint64_t>(kv.page_size())), end};
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

// False at the end of the file and on errors.
[[nodiscard]] bool read_at(int fd, uint64_t offset, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::pread(fd, at, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

class Digest {
 public:
  explicit Digest(uint64_t seed) {
    XXH3_INITSTATE(&state_);
    XXH3_64bits_reset_withSeed(&state_, seed);
  }
  void add(const void* data, size_t bytes) { XXH3_64bits_update(&state_, data, bytes); }
  uint64_t value() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

// A fuzzer cannot guess digests: built for one, the reader takes any.
bool same_digest(uint64_t found, uint64_t expected) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  static_cast<void>(found), static_cast<void>(expected);
  return true;
#else
  return found == expected;
#endif
}

// Where the image of a page lies in the file, and its digest.
struct PageImage {
  uint64_t offset = 0, digest = 0;
};

// What a file says, all of it checked but for the vocabulary.
struct Contents {
  std::string why_not;
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<PageImage> pages;    // [ceil(tokens / page_size)]
  std::vector<PageImage> windows;  // the same for window pages; offset 0: not in the file
  uint64_t n_valid_bytes = 0;      // behind them lies the beginning of a record that was never finished
  uint64_t digest = 0;             // of the last record
};

// Reads text, tokens and pages in the order of the file. Sizes are settled against the real file before anything is
// sized by them.
class Reader {
 public:
  Reader(int fd, uint64_t file_bytes, const Header& header, const KvManager& kv)
      : fd_(fd), file_bytes_(file_bytes), header_(header), kv_(kv) {}

  Contents read() {
    at_ = sizeof(Header);
    if (header_.version == kWholeVersion) {
      read_whole();
    } else {
      read_records();
    }
    return std::move(contents_);
  }

 private:
  void refuse(std::string why) { contents_.why_not = std::move(why); }
  void damaged() { refuse("damaged: its checksum does not match"); }
  uint64_t bytes_left() const { return file_bytes_ - at_; }
  uint64_t n_pages(uint64_t n_tokens) const { return (n_tokens + header_.page_size - 1) / header_.page_size; }

  [[nodiscard]] bool get(void* data, size_t bytes, Digest& digest) {
    if (bytes > bytes_left() || !read_at(fd_, at_, data, bytes)) return false;
    digest.add(data, bytes);
    at_ += bytes;
    return true;
  }

  // Bytes behind a record that keeps and brings so much, without its digest; more than the file has when it is too
  // much for any file.
  uint64_t body_bytes(uint64_t n_text, uint64_t n_tokens_kept, uint64_t n_tokens_new) const {
    if (n_text > file_bytes_ || n_tokens_new > file_bytes_) return file_bytes_ + 1;
    const uint64_t n_images =
        n_tokens_new == 0 ? 0 : n_pages(n_tokens_kept + n_tokens_new) - n_tokens_kept / header_.page_size;
    const auto [window, end] = windows_written(kv_, n_tokens_kept, n_tokens_kept + n_tokens_new);
    const auto bytes = static_cast<unsigned __int128>(n_images) * header_.bytes_per_page +
                       static_cast<unsigned __int128>(end - window) * static_cast<uint64_t>(kv_.window_page_bytes()) +
                       n_text + n_tokens_new * sizeof(int32_t);
    return static_cast<uint64_t>(std::min<unsigned __int128>(bytes, file_bytes_ + 1));
  }

  // REQUIRES: body_bytes() are there; what is kept was there before.
  [[nodiscard]] bool get_body(uint64_t n_text_kept, uint64_t n_text_new, uint64_t n_tokens_kept, uint64_t n_tokens_new,
                              Digest& digest) {
    contents_.text.resize(n_text_kept + n_text_new);
    if (!get(contents_.text.data() + n_text_kept, n_text_new, digest)) return false;
    contents_.tokens.resize(n_tokens_kept + n_tokens_new);
    if (!get(contents_.tokens.data() + n_tokens_kept, n_tokens_new * sizeof(int32_t), digest)) return false;
    const uint64_t first = n_tokens_new == 0 ? n_pages(n_tokens_kept) : n_tokens_kept / header_.page_size;
    contents_.pages.resize(n_pages(n_tokens_kept + n_tokens_new));
    contents_.windows.resize(std::min<uint64_t>(contents_.windows.size(), first));
    contents_.windows.resize(contents_.pages.size());
    std::vector<std::byte> image;
    const auto get_image = [&](uint64_t bytes, PageImage& place) {
      image.resize(bytes);
      place.offset = at_;
      if (!get(image.data(), image.size(), digest)) return false;
      place.digest = XXH3_64bits(image.data(), image.size());
      return true;
    };
    for (uint64_t i = first; i < contents_.pages.size(); ++i) {
      if (!get_image(header_.bytes_per_page, contents_.pages[i])) return false;
    }
    for (auto [i, end] = windows_written(kv_, n_tokens_kept, n_tokens_kept + n_tokens_new); i < end; ++i) {
      if (!get_image(static_cast<uint64_t>(kv_.window_page_bytes()), contents_.windows[i])) return false;
    }
    return true;
  }

  [[nodiscard]] bool get_digest(const Digest& expected) {
    uint64_t found = 0;
    if (sizeof found > bytes_left() || !read_at(fd_, at_, &found, sizeof found)) return false;
    at_ += sizeof found;
    contents_.digest = found;
    return same_digest(found, expected.value());
  }

  void read_whole() {
    const uint64_t n_body = body_bytes(header_.n_text, 0, header_.n_tokens);
    if (n_body > bytes_left() || bytes_left() - n_body != sizeof(uint64_t)) {
      return refuse(str("damaged: expected ", header_.n_tokens, " tokens and ", header_.n_text,
                        " bytes of text, found ", file_bytes_, " bytes in all"));
    }
    Digest digest(0);
    digest.add(&header_, sizeof header_);
    if (!get_body(0, header_.n_text, 0, header_.n_tokens, digest) || !get_digest(digest)) return damaged();
    contents_.n_valid_bytes = at_;
  }

  void read_records() {
    Digest of_header(0);
    of_header.add(&header_, sizeof header_);
    if (!get_digest(of_header)) return damaged();
    while (bytes_left() > 0) {
      Record record{};
      const size_t n_there = std::min<uint64_t>(bytes_left(), sizeof record);
      if (!read_at(fd_, at_, &record, n_there)) return damaged();
      if (std::memcmp(record.magic, kRecordMagic, std::min(n_there, sizeof record.magic)) != 0) return damaged();
      if (n_there < sizeof record) break;
      Digest of_fields(contents_.digest);
      of_fields.add(&record, kRecordFields);
      if (!same_digest(record.digest, of_fields.value())) return damaged();
      if (record.n_text_kept > contents_.text.size() || record.n_tokens_kept > contents_.tokens.size()) {
        return refuse("damaged: a save keeps more than there was");
      }
      const uint64_t n_body = body_bytes(record.n_text_new, record.n_tokens_kept, record.n_tokens_new);
      if (n_body > file_bytes_ || sizeof record + n_body + sizeof(uint64_t) > bytes_left()) break;
      Digest digest(contents_.digest);
      digest.add(&record, sizeof record);
      at_ += sizeof record;
      if (!get_body(record.n_text_kept, record.n_text_new, record.n_tokens_kept, record.n_tokens_new, digest) ||
          !get_digest(digest)) {
        return damaged();
      }
      contents_.n_valid_bytes = at_;
    }
    if (contents_.n_valid_bytes == 0)
      refuse(str("damaged: nothing but the beginning of it is there, ", file_bytes_, " bytes"));
  }

  const int fd_;
  const uint64_t file_bytes_;
  const Header header_;
  const KvManager& kv_;
  uint64_t at_ = 0;
  Contents contents_;
};

// Writes one record and what belongs to it.
class RecordWriter {
 public:
  RecordWriter(int fd, const KvManager& kv) : fd_(fd), kv_(kv) {}

  // `digest`: that before the record; then its own.
  [[nodiscard]] bool write(std::string_view text, uint64_t n_text_kept, const KvSequence& sequence,
                           uint64_t n_tokens_kept, uint64_t& digest) {
    Record record{};
    std::memcpy(record.magic, kRecordMagic, sizeof kRecordMagic);
    record.n_text_kept = n_text_kept;
    record.n_text_new = text.size() - n_text_kept;
    record.n_tokens_kept = n_tokens_kept;
    record.n_tokens_new = sequence.tokens.size() - n_tokens_kept;
    Digest of_fields(digest);
    of_fields.add(&record, kRecordFields);
    record.digest = of_fields.value();
    Digest of_all(digest);
    bool ok = true;
    const auto put = [&](const void* data, size_t bytes) {
      of_all.add(data, bytes);
      ok = ok && write_all(fd_, data, bytes);
    };
    put(&record, sizeof record);
    put(text.data() + n_text_kept, record.n_text_new);
    put(sequence.tokens.data() + n_tokens_kept, record.n_tokens_new * sizeof(int32_t));
    std::vector<std::byte> image(static_cast<size_t>(kv_.page_bytes()));
    for (auto [page, end] = pages_written(kv_, n_tokens_kept, sequence.tokens.size()); page < end && ok; ++page) {
      kv_.read_page(sequence.pages[page], image);
      put(image.data(), image.size());
    }
    image.resize(static_cast<size_t>(kv_.window_page_bytes()));
    for (auto [page, end] = windows_written(kv_, n_tokens_kept, sequence.tokens.size()); page < end && ok; ++page) {
      kv_.read_window_page(sequence.pages[page], image);
      put(image.data(), image.size());
    }
    digest = of_all.value();
    return ok && write_all(fd_, &digest, sizeof digest);
  }

  static std::pair<size_t, size_t> pages_written(const KvManager& kv, uint64_t n_tokens_kept, uint64_t n_tokens) {
    const auto end = static_cast<size_t>(kv.n_pages_for(static_cast<int64_t>(n_tokens)));
    return {n_tokens_kept == n_tokens ? end : n_tokens_kept / static_cast<uint64_t>(kv.page_size()), end};
  }
  static uint64_t bytes(const KvManager& kv, uint64_t n_text_new, uint64_t n_tokens_kept, uint64_t n_tokens) {
    const auto [begin, end] = pages_written(kv, n_tokens_kept, n_tokens);
    const auto [window, window_end] = windows_written(kv, n_tokens_kept, n_tokens);
    return (window_end - window) * static_cast<uint64_t>(kv.window_page_bytes()) + sizeof(Record) + n_text_new +
           (n_tokens - n_tokens_kept) * sizeof(int32_t) + (end - begin) * static_cast<uint64_t>(kv.page_bytes()) +
           sizeof(uint64_t);
  }

 private:
  int fd_;
  const KvManager& kv_;
};

[[noreturn]] void refuse_write(const std::string& path, int error) {
  fail(ErrorKind::kInvalidInput, path, ": cannot write the cache file: ", std::strerror(error));
}

void write_whole(const std::string& path, const CacheIdentity& identity, const KvManager& kv,
                 const KvSequence& sequence, std::string_view text, bool durable, SavedCache& saved) {
  const std::string temporary = str(path, ".", ::getpid(), ".tmp");
  FileDescriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const auto refuse = [&] {
    const int error = errno;
    ::unlink(temporary.c_str());
    refuse_write(path, error);
  };
  if (file.get() < 0) refuse();
  const Header header = make_header(identity, kv);
  Digest of_header(0);
  of_header.add(&header, sizeof header);
  uint64_t digest = of_header.value();
  struct stat info {};
  const bool ok = write_all(file.get(), &header, sizeof header) && write_all(file.get(), &digest, sizeof digest) &&
                  RecordWriter(file.get(), kv).write(text, 0, sequence, 0, digest) &&
                  (!durable || ::fsync(file.get()) == 0) && ::fstat(file.get(), &info) == 0 && file.close() == 0;
  if (!ok || ::rename(temporary.c_str(), path.c_str()) != 0) refuse();
  saved = {path, stamp_of(info), static_cast<uint64_t>(info.st_size), digest, std::string(text), sequence.tokens};
}

// Appends a record with what is new. False when a whole file is to be written instead: the file is not the one that
// `saved` tells of, or most of it would be of no use any more.
bool append(const std::string& path, const KvManager& kv, const KvSequence& sequence, std::string_view text,
            bool durable, SavedCache& saved) {
  if (saved.path != path) return false;
  const auto n_text_kept = static_cast<uint64_t>(
      std::mismatch(text.begin(), text.end(), saved.text.begin(), saved.text.end()).first - text.begin());
  const auto n_tokens_kept = static_cast<uint64_t>(
      std::mismatch(sequence.tokens.begin(), sequence.tokens.end(), saved.tokens.begin(), saved.tokens.end()).first -
      sequence.tokens.begin());
  const uint64_t n_tokens = sequence.tokens.size();
  // What goes on from an earlier place sees window pages there that the file may lack.
  if (kv.n_window_pages() > 0 && n_tokens_kept < saved.tokens.size()) return false;
  const uint64_t n_bytes = RecordWriter::bytes(kv, text.size() - n_text_kept, n_tokens_kept, n_tokens);
  const uint64_t n_whole = RecordWriter::bytes(kv, text.size(), 0, n_tokens) + sizeof(Header) + sizeof(uint64_t);
  if (2 * n_bytes > n_whole || saved.n_valid_bytes + n_bytes > 2 * n_whole) return false;

  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  struct stat info {};
  // The lock keeps two programs from appending at the same place; whoever comes second sees another stamp.
  if (file.get() < 0 || ::flock(file.get(), LOCK_EX) != 0 || ::fstat(file.get(), &info) != 0 ||
      stamp_of(info) != saved.stamp || stamp_of(path) != saved.stamp) {
    return false;
  }
  const bool is_same = n_text_kept == text.size() && text.size() == saved.text.size() && n_tokens_kept == n_tokens &&
                       n_tokens == saved.tokens.size();
  uint64_t digest = saved.digest;
  const auto end = static_cast<off_t>(saved.n_valid_bytes);
  bool ok = ::ftruncate(file.get(), end) == 0 && ::lseek(file.get(), end, SEEK_SET) == end;
  ok = ok && (is_same || RecordWriter(file.get(), kv).write(text, n_text_kept, sequence, n_tokens_kept, digest));
  ok = ok && (!durable || ::fsync(file.get()) == 0) && ::fstat(file.get(), &info) == 0;
  if (!ok) {
    const int error = errno;
    saved.path.clear();
    // Should this fail as well, the beginning of a record stays, which readers pass over.
    [[maybe_unused]] const int is_cut = ::ftruncate(file.get(), end);
    refuse_write(path, error);
  }
  saved = {path, stamp_of(info), static_cast<uint64_t>(info.st_size), digest, std::string(text), sequence.tokens};
  return true;
}

}  // namespace

void write_cache_file(const std::string& path, const CacheIdentity& identity, const KvManager& kv,
                      const KvSequence& sequence, std::string_view text, bool durable, SavedCache& saved) {
  if (append(path, kv, sequence, text, durable, saved)) return;
  write_whole(path, identity, kv, sequence, text, durable, saved);
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
  if (info.st_size < static_cast<off_t>(sizeof header) || !read_at(file.get(), 0, &header, sizeof header)) {
    return why("not a cache file of this program: only ", info.st_size, " bytes");
  }
  if (std::string reason = difference(header, make_header(identity, kv)); !reason.empty()) return why(reason);

  // All of it is checked before the first page is taken: a damaged file costs no cached prefix its pages.
  Contents contents = Reader(file.get(), static_cast<uint64_t>(info.st_size), header, kv).read();
  if (!contents.why_not.empty()) return why(contents.why_not);
  if (static_cast<int64_t>(contents.pages.size()) > kv.n_pages()) {
    return why("holds ", contents.tokens.size(), " tokens, the context has room for ",
               kv.n_pages() * int64_t{kv.page_size()});
  }
  for (const int32_t token : contents.tokens) {
    if (token < 0 || token >= vocab_size)
      return why("damaged: it has token ", token, " of a vocabulary of ", vocab_size);
  }

  const auto n_tokens = static_cast<int64_t>(contents.tokens.size());
  const size_t first_window =
      kv.n_window_pages() > 0 ? static_cast<size_t>(kv.first_seen_page(n_tokens)) : contents.pages.size();
  for (size_t i = first_window; i < contents.pages.size(); ++i) {
    if (contents.windows[i].offset == 0) return why("damaged: page ", i, " is missing in layers with a window");
  }

  KvSequence sequence = kv.find({}, ns);
  if (!kv.reserve_copy(sequence, n_tokens)) {
    kv.release(std::move(sequence));
    return why("no free pages for ", contents.tokens.size(), " tokens");
  }
  std::vector<std::byte> image(static_cast<size_t>(kv.page_bytes()));
  std::vector<std::byte> window_image(static_cast<size_t>(kv.window_page_bytes()));
  const auto reread = [&](const PageImage& place, std::vector<std::byte>& into) {
    return read_at(file.get(), place.offset, into.data(), into.size()) &&
           XXH3_64bits(into.data(), into.size()) == place.digest;
  };
  for (size_t i = 0; i < contents.pages.size(); ++i) {
    const bool has_window = i >= first_window;
    if (!reread(contents.pages[i], image) || (has_window && !reread(contents.windows[i], window_image))) {
      kv.release(std::move(sequence));
      return why("it was changed while it was read");
    }
    kv.write_page(sequence.pages[i], image);
    if (has_window) kv.write_window_page(sequence.pages[i], window_image);
  }
  sequence.tokens = contents.tokens;
  kv.keep(std::move(sequence));
  const auto n_file_bytes = static_cast<uint64_t>(info.st_size);
  result.n_torn_bytes = static_cast<int64_t>(n_file_bytes - contents.n_valid_bytes);
  if (header.version != kWholeVersion) {
    result.saved = {path, stamp_of(info), contents.n_valid_bytes, contents.digest, contents.text, contents.tokens};
  }
  result.text = std::move(contents.text);
  result.tokens = std::move(contents.tokens);
  return result;
}

}  // namespace loci
