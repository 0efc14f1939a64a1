// Cache files: the K/V of one sequence on disk, and a text beside it (--prompt-cache, --session). Bound to
// model, formats and arithmetic; a file is used whole or not at all. Layout: docs/formats.md.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/kv/file_stamp.h"
#include "engine/kv/kv_manager.h"

namespace loci {

// What must agree for K/V to be usable.
struct CacheIdentity {
  uint64_t model = 0;      // fingerprint of the model
  std::string arithmetic;  // "CPU avx2", "CPU avx2 precise": another one rounds differently
};

// What this process has last written to a file or read from it: the next save appends what is new.
struct SavedCache {
  std::string path;  // empty: nothing is known
  FileStamp stamp;
  uint64_t n_valid_bytes = 0;  // of the file
  uint64_t digest = 0;         // of its last record
  std::string text;
  std::vector<int32_t> tokens;
};

// Saves all tokens of `sequence` (it may be empty) and `text`; `durable`: on return they have reached the disk. Appends
// to the file that `saved` tells of, if it is as it was left and little of it is outdated; otherwise writes a new one
// by way of a temporary file that is renamed when complete. A program killed at any moment leaves the state before or
// this one. Throws Error.
void write_cache_file(const std::string& path, const CacheIdentity& identity, const KvManager& kv,
                      const KvSequence& sequence, std::string_view text, bool durable, SavedCache& saved);

struct CacheFile {
  std::string why_not;  // empty: the file was used
  std::string text;
  std::vector<int32_t> tokens;
  int64_t n_torn_bytes = 0;  // at the end: a save that was cut off; what was used is the one before it
  SavedCache saved;          // for write_cache_file
};

// Reads a file into pages and keeps them for reuse. When it was not used, nothing has changed. `vocab_size` bounds the
// tokens.
[[nodiscard]] CacheFile read_cache_file(const std::string& path, const CacheIdentity& identity,
                                        const CacheNamespace& ns, int32_t vocab_size, KvManager& kv);

}  // namespace loci
