// LOCI_CHECK: aborts on a broken invariant (a bug of ours), in every build. LOCI_DCHECK: debug builds only.
// Input from files, flags or sockets must never reach either: that is what Error is for.
#pragma once
#include <cstdio>
#include <cstdlib>

#include "kernels/error.h"

#define LOCI_CHECK(cond, ...)                                                              \
  do {                                                                                     \
    if (!(cond)) [[unlikely]] {                                                            \
      std::fprintf(stderr, "%s:%d: broken invariant: %s: %s\n", __FILE__, __LINE__, #cond, \
                   ::loci::str("" __VA_OPT__(, ) __VA_ARGS__).c_str());                    \
      std::abort();                                                                        \
    }                                                                                      \
  } while (0)

#ifdef NDEBUG
#define LOCI_DCHECK(cond, ...) \
  do {                         \
  } while (0)
#else
#define LOCI_DCHECK(cond, ...) LOCI_CHECK(cond, __VA_ARGS__)
#endif
