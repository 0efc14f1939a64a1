// Cache files: the K/V of one sequence on disk (--prompt-cache, /save). Bound to model, formats and arithmetic;
// a file is used whole or not at all. Layout: docs/formats.md.
#pragma once
#include <cstdint>
#include <string>

#include "engine/kv/kv_manager.h"

namespace loci {

// What must agree for K/V to be usable.
struct CacheIdentity {
  uint64_t model = 0;      // fingerprint of the model
  std::string arithmetic;  // "CPU avx2", "CPU avx2 precise": another one rounds differently
};

// Writes the whole pages of `sequence` (fewer than page_size tokens at its end are left out: they are computed
// again). By way of a temporary file that is renamed when complete. Throws Error.
void write_cache_file(const std::string& path, const CacheIdentity& identity, const KvManager& kv,
                      const KvSequence& sequence);

// Reads a file into pages and keeps them for reuse. Returns an empty string, or why it was not used; then nothing
// has changed. `vocab_size` bounds the tokens.
[[nodiscard]] std::string read_cache_file(const std::string& path, const CacheIdentity& identity,
                                          const CacheNamespace& ns, int32_t vocab_size, KvManager& kv);

}  // namespace loci
