// LOCI_HD marks the small layout and unpack functions shared by CPU kernels, CUDA kernels and tests.
// Forced inlining also keeps code built for one instruction set out of the others (no weak symbols).
#pragma once

#if defined(__CUDACC__)
#define LOCI_HD __host__ __device__ __forceinline__
#else
#define LOCI_HD inline __attribute__((always_inline))
#endif
