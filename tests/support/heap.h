// Bytes of the heap in use, for tests of what a data structure takes.
#pragma once
#include <malloc.h>

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LOCI_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LOCI_SANITIZED 1
#endif
#endif

namespace loci::test {

// -1 under sanitizers, whose allocators tell nothing.
inline int64_t heap_bytes() {
#ifdef LOCI_SANITIZED
  return -1;
#else
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
#endif
}

}  // namespace loci::test
