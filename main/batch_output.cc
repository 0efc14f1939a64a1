#include "main/batch_output.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>

#include "kernels/error.h"
#include "server/json.h"

namespace loci::cli {
namespace {

constexpr std::string_view kLineStart = "{\"id\":\"batch_req_";

struct ResultLine {
  std::string custom_id, request_id, fingerprint, error_code;
  bool failed = false;
};

// nullopt when it is no line of ours.
std::optional<ResultLine> parse_result(const std::string& text) {
  nlohmann::ordered_json json;
  try {
    json = server::parse_json(text, "");
  } catch (const Error&) {
    return std::nullopt;
  }
  const auto is_string = [](const nlohmann::ordered_json& object, const char* name) {
    return object.is_object() && object.contains(name) && object[name].is_string();
  };
  if (!is_string(json, "id") || !is_string(json, "custom_id") || !json.contains("response")) return std::nullopt;
  ResultLine line;
  line.request_id = json["id"];
  line.custom_id = json["custom_id"];
  line.failed = json.contains("error") && !json["error"].is_null();
  if (line.failed && is_string(json["error"], "code")) line.error_code = json["error"]["code"];
  const nlohmann::ordered_json& response = json["response"];
  if (response.is_object() && response.contains("body") && is_string(response["body"], "system_fingerprint")) {
    line.fingerprint = response["body"]["system_fingerprint"];
  }
  return line;
}

// What two fingerprints "loci-VERSION-MODEL-SETTINGS" differ in.
std::string difference(const std::string& theirs, const std::string& ours) {
  const auto part = [](const std::string& text, int from_end) {
    size_t end = text.size(), dash = std::string::npos;
    for (int i = 0; i <= from_end; ++i) {
      if (i > 0) end = dash;
      dash = end == 0 ? std::string::npos : text.rfind('-', end - 1);
      if (dash == std::string::npos) return std::string();
    }
    return text.substr(dash + 1, end - dash - 1);
  };
  if (theirs.empty()) return "by another program";
  if (part(theirs, 1) != part(ours, 1)) return "with another model, cache type or precision";
  if (part(theirs, 0) != part(ours, 0)) return "with other settings (sampling, length, template, context or the like)";
  return "by another version";
}

}  // namespace

BatchOutput::BatchOutput(const BatchOutputOptions& options, BatchLedger& ledger) : path_(options.path) {
  if (options.path == "-") {
    name_ = "standard output";
    fd_.reset(STDOUT_FILENO);
    return;
  }
  name_ = options.path;
  open_file(options.path);
  if (!is_file_) return;
  if (options.overwrite) {
    if (ftruncate(fd_.get(), 0) != 0) fail(ErrorKind::kInternal, name_, ": ", std::strerror(errno));
    return;
  }
  scan(options, ledger);
  if (options.retry_failed && ledger.n_failed() > 0) {
    drop_failures(options);
    ledger = BatchLedger();
    n_mixed_ = 0;
    scan(options, ledger);
  }
}

void BatchOutput::Descriptor::reset(int fd) {
  if (fd_ > STDERR_FILENO) close(fd_);
  fd_ = fd;
}

void BatchOutput::open_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) {
    // A pipe or device may be open to writing alone.
    const int plain = errno == EISDIR ? -1 : open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (plain < 0) fail(ErrorKind::kInvalidInput, path, ": ", std::strerror(errno));
    fd_.reset(plain);
    return;
  }
  fd_.reset(fd);
  struct stat info {};
  is_file_ = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  if (!is_file_) return;
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    fail(ErrorKind::kInvalidInput, path, ": ",
         errno == EWOULDBLOCK ? "another run is writing to it" : std::strerror(errno));
  }
  struct stat named {};
  if (stat(path.c_str(), &named) != 0 || named.st_ino != info.st_ino || named.st_dev != info.st_dev) {
    fail(ErrorKind::kInvalidInput, path, ": another run has just replaced it; start again");
  }
  char resolved[PATH_MAX];
  if (realpath(path.c_str(), resolved) != nullptr) path_ = resolved;
}

void BatchOutput::scan(const BatchOutputOptions& options, BatchLedger& ledger) {
  std::ifstream in(path_, std::ios::binary);
  std::string text;
  int64_t n_whole = 0, number = 0;
  bool needs_newline = false;
  while (std::getline(in, text)) {
    ++number;
    const bool has_end = !in.eof();
    const std::optional<ResultLine> line = parse_result(text);
    if (!line && !has_end) {
      // The last line of a killed run; anything else is left alone.
      const size_t n = std::min(text.size(), kLineStart.size());
      const bool all_nul = text.find_first_not_of('\0') == std::string::npos;  // a power failure leaves such
      if (text.compare(0, n, kLineStart.substr(0, n)) != 0 && !all_nul) {
        fail(ErrorKind::kInvalidInput, name_, ": line ", number, " is no result of a batch; choose another -o");
      }
      n_torn_bytes_ = static_cast<int64_t>(text.size());
      break;
    }
    if (!line) {
      fail(ErrorKind::kInvalidInput, name_, ": line ", number,
           " is no result of a batch; choose another -o, or --overwrite to begin anew");
    }
    n_whole += static_cast<int64_t>(text.size()) + (has_end ? 1 : 0);
    needs_newline = !has_end;
    if (line->error_code == "duplicate_custom_id") {
      ledger.add_duplicate(line->request_id);
      continue;
    }
    ledger.add_result(line->custom_id, line->request_id, line->failed);
    if (line->failed || line->fingerprint == options.fingerprint) continue;
    if (!options.allow_mixed) {
      fail(ErrorKind::kInvalidInput, name_, ": line ", number, " was written ",
           difference(line->fingerprint, options.fingerprint), " (", line->fingerprint, ", this run is ",
           options.fingerprint,
           "); choose another -o, --overwrite to begin anew, or --allow-mixed to go on all the same");
    }
    ++n_mixed_;
  }
  if (in.bad()) fail(ErrorKind::kInternal, name_, ": reading failed");
  n_bytes_ = n_whole;
  if (n_torn_bytes_ > 0 && ftruncate(fd_.get(), n_whole) != 0) {
    fail(ErrorKind::kInternal, name_, ": cutting the torn last line off: ", std::strerror(errno));
  }
  if (needs_newline) write_all("\n");
}

// Writes a copy without the failures beside the file and puts it in its place.
void BatchOutput::drop_failures(const BatchOutputOptions& options) {
  const std::string copy_path = path_ + ".tmp";
  struct stat info {};
  fstat(fd_.get(), &info);
  const int copy = open(copy_path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, info.st_mode & 0777);
  if (copy < 0) fail(ErrorKind::kInvalidInput, copy_path, ": ", std::strerror(errno));
  const Descriptor original(fd_.release());  // keeps its lock until the copy has its name
  fd_.reset(copy);
  n_bytes_ = 0;
  std::ifstream in(path_, std::ios::binary);
  std::string text;
  try {
    if (flock(copy, LOCK_EX | LOCK_NB) != 0)
      fail(ErrorKind::kInvalidInput, copy_path, ": another run is writing to it");
    while (std::getline(in, text)) {
      const std::optional<ResultLine> line = parse_result(text);
      if (line && !line->failed) write(std::move(text));
    }
    sync();
    if (std::rename(copy_path.c_str(), path_.c_str()) != 0) {
      fail(ErrorKind::kInternal, options.path, ": ", std::strerror(errno));
    }
  } catch (const Error&) {
    unlink(copy_path.c_str());
    throw;
  }
}

void BatchOutput::write_all(const std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd_.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) {
      const int reason = errno;
      if (is_file_ && ftruncate(fd_.get(), n_bytes_) != 0) {
        fail(ErrorKind::kInternal, name_, ": ", std::strerror(reason), "; the last line is incomplete");
      }
      fail(ErrorKind::kInternal, name_, ": ", std::strerror(reason));
    }
    done += static_cast<size_t>(n);
  }
  n_bytes_ += static_cast<int64_t>(bytes.size());
}

void BatchOutput::write(std::string line) {
  line += '\n';
  write_all(line);
}

void BatchOutput::sync() {
  if (is_file_ && fsync(fd_.get()) != 0) fail(ErrorKind::kInternal, name_, ": ", std::strerror(errno));
}

}  // namespace loci::cli
