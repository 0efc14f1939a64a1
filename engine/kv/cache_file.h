// Cache files: the K/V of one sequence on disk, and a text beside it (--prompt-cache, --session). Bound to
// model, formats and arithmetic; a file is used whole or not at all. Layout: docs/formats.md.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/kv/kv_manager.h"

namespace loci {

// What must agree for K/V to be usable.
struct CacheIdentity {
  uint64_t model = 0;      // fingerprint of the model
  std::string arithmetic;  // "CPU avx2", "CPU avx2 precise": another one rounds differently
};

// Writes all tokens of `sequence` (it may be empty) and `text`. By way of a temporary file that is renamed when
// complete; `durable`: after it has reached the disk. Throws Error.
void write_cache_file(const std::string& path, const CacheIdentity& identity, const KvManager& kv,
                      const KvSequence& sequence, std::string_view text, bool durable);

struct CacheFile {
  std::string why_not;  // empty: the file was used
  std::string text;
  std::vector<int32_t> tokens;
};

// Reads a file into pages and keeps them for reuse. When it was not used, nothing has changed. `vocab_size` bounds the
// tokens.
[[nodiscard]] CacheFile read_cache_file(const std::string& path, const CacheIdentity& identity,
                                        const CacheNamespace& ns, int32_t vocab_size, KvManager& kv);

}  // namespace loci
