// Any bytes as a cache file (--prompt-cache, --session): it is used whole, or refused and nothing has changed. What was
// used is saved again, as a whole file and as an appended one, and reads back the same. Built for a fuzzer the reader
// takes any digest (engine/kv/cache_file.cc).
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "engine/kv/cache_file.h"
#include "kernels/backend.h"
#include "kernels/error.h"

namespace {

using loci::CacheFile;
using loci::KvManager;

constexpr int kPages = 24, kVocab = 300;

void require(bool condition) {
  if (!condition) __builtin_trap();
}

// make_seeds.py writes files for this manager and this identity.
struct Cache {
  const loci::CacheIdentity identity{7, "fuzz"};
  const loci::CacheNamespace ns{.model = 7, .k_format = loci::KvFormat::kF32, .v_format = loci::KvFormat::kF32};
  std::unique_ptr<loci::Backend> backend = loci::make_cpu_backend({.n_threads = 1});
  const loci::KvLayerShape layer{1, 8, loci::KvFormat::kF32, loci::KvFormat::kF32};
  KvManager kv{
      std::span(&layer, 1), {.k_format = layer.k_format, .v_format = layer.v_format}, {.n_pages = kPages}, *backend};

  CacheFile read(const std::string& path) {
    kv.clear();
    CacheFile file = loci::read_cache_file(path, identity, ns, kVocab, kv);
    kv.check_invariants({});
    return file;
  }

  // Saves the tokens that were read, with `text`.
  void save(const std::string& path, const CacheFile& file, const std::string& text, loci::SavedCache& saved) {
    loci::KvSequence sequence = kv.find(file.tokens, ns);
    require(sequence.tokens == file.tokens);
    loci::write_cache_file(path, identity, kv, sequence, text, false, saved);
    kv.release(std::move(sequence));
    const CacheFile again = read(path);
    require(again.why_not.empty() && again.text == text && again.tokens == file.tokens && again.n_torn_bytes == 0);
  }
};

// A path of this process, free again at its end.
struct ScratchFile {
  std::string path;

  ScratchFile() {
    const char* folder = std::getenv("TMPDIR");
    path = std::string(folder == nullptr ? "/tmp" : folder) + "/cache_file_fuzz." + std::to_string(getpid());
  }
  ~ScratchFile() { unlink(path.c_str()); }
};

void write_file(const std::string& path, const uint8_t* data, size_t size) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  require(file.good());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Cache cache;
  static const ScratchFile scratch;
  const std::string& path = scratch.path;
  write_file(path, data, size);
  CacheFile file = cache.read(path);
  if (!file.why_not.empty()) {
    require(file.text.empty() && file.tokens.empty() && cache.kv.stats().n_free == kPages);
    for (const char c : file.why_not) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    return 0;
  }
  for (const int32_t token : file.tokens) require(token >= 0 && token < kVocab);
  // To the file itself, where there is something to append to, then a file of its own.
  if (!file.saved.path.empty()) cache.save(path, file, file.text + "more", file.saved);
  loci::SavedCache none;
  cache.save(path, file, file.text, none);
  return 0;
}
