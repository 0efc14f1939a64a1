#include "kernels/cpu/isa.h"

#include <charconv>
#include <cstdlib>

#if defined(LOCI_HAS_AMX)
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/cpu/amx_kernels.h"
#endif
#if defined(LOCI_HAS_AVX2) || defined(LOCI_HAS_AVX512)
#include <cpuid.h>
#endif

#include "kernels/error.h"

namespace loci::cpu {
namespace {

#if defined(LOCI_HAS_AVX2) || defined(LOCI_HAS_AVX512)
// CPUID leaf 1, ECX bit 29: __builtin_cpu_supports("f16c") is not known to clang 14. Its registers are AVX's, whose
// state the checks beside it cover.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & (1u << 29)) != 0;
}
#endif

#if defined(LOCI_HAS_AVX2)
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }
#endif
#if defined(LOCI_HAS_AVXVNNI)
// CPUID leaf 7, second page, EAX bit 4.
bool has_avxvnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & (1u << 4)) != 0;
}
#endif
#if defined(LOCI_HAS_AVX512)
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma") &&
         has_f16c();
}
#endif
#if defined(LOCI_HAS_AVX512VNNI)
bool has_avx512vnni() { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }
#endif

#if defined(LOCI_HAS_AMX)
// Tiles with dot products of bytes (CPUID leaf 7, EDX bits 24 and 25), and the kernel's permission to use their state,
// which it gives to the whole process.
bool amx_permitted() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kWanted = (1u << 24) | (1u << 25);
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kWanted) != kWanted) return false;
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

const KernelTable& amx_table() {
  static const MatmulKernels matmul = [] {
    MatmulKernels kernels = *avx512vnni::kTable.matmul;
    amx::kAmx.replace_slabs(kernels);
    return kernels;
  }();
  static const KernelTable table = {.name = "amx", .matmul = &matmul, .attention = avx512vnni::kTable.attention};
  return table;
}
#endif

struct IsaEntry {
  const char* name;
  const KernelTable& (*table)();
  bool (*available)();
};

// Best first. __builtin_cpu_supports looks at CPUID and at the state that the operating system saves (XCR0).
constexpr IsaEntry kIsas[] = {
#if defined(LOCI_HAS_AMX)
    {"amx", amx_table,
     [] {
       static const bool available = has_avx512vnni() && amx_permitted();
       return available;
     }},
#endif
#if defined(LOCI_HAS_AVX512VNNI)
    {"avx512vnni", []() -> const KernelTable& { return avx512vnni::kTable; }, has_avx512vnni},
#endif
#if defined(LOCI_HAS_AVX512)
    {"avx512", []() -> const KernelTable& { return avx512::kTable; }, has_avx512},
#endif
#if defined(LOCI_HAS_AVXVNNI)
    {"avxvnni", []() -> const KernelTable& { return avxvnni::kTable; }, [] { return has_avx2() && has_avxvnni(); }},
#endif
#if defined(LOCI_HAS_AVX2)
    {"avx2", []() -> const KernelTable& { return avx2::kTable; }, has_avx2},
#endif
    {"scalar", []() -> const KernelTable& { return scalar::kTable; }, [] { return true; }},
};

std::string joined_names(bool only_available) {
  std::string names;
  for (const IsaEntry& entry : kIsas) {
    if (only_available && !entry.available()) continue;
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

}  // namespace

std::vector<std::string_view> available_isas() {
  std::vector<std::string_view> names;
  for (const IsaEntry& entry : kIsas) {
    if (entry.available()) names.emplace_back(entry.name);
  }
  return names;
}

const KernelTable& kernels_of(std::string_view isa) {
  for (const IsaEntry& entry : kIsas) {
    if (isa != entry.name) continue;
    if (!entry.available()) {
      fail(ErrorKind::kInvalidInput, "instruction set ", isa,
           " is not available on this CPU; it has: ", joined_names(true));
    }
    return entry.table();
  }
  fail(ErrorKind::kInvalidInput, "unknown instruction set \"", isa, "\"; expected one of: ", joined_names(false));
}

const KernelTable& choose_kernels() {
  const char* forced = std::getenv("LOCI_ISA");
  if (forced == nullptr || *forced == '\0') return kernels_of(available_isas().front());
  try {
    return kernels_of(forced);
  } catch (const Error& error) {
    throw Error(error.kind(), str("LOCI_ISA: ", error.what()));
  }
}

int64_t weight_prefetch_bytes() {
  constexpr int64_t kMost = int64_t{1} << 20;
  if (const char* forced = std::getenv("LOCI_PREFETCH"); forced != nullptr && *forced != '\0') {
    const std::string_view text = forced;
    int64_t bytes = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
    if (error == std::errc() && end == text.data() + text.size() && bytes >= 0 && bytes <= kMost) return bytes;
    fail(ErrorKind::kInvalidInput, "LOCI_PREFETCH: expected bytes from 0 to ", kMost, ", found \"", text, '"');
  }
#if defined(LOCI_HAS_AVX2) || defined(LOCI_HAS_AVX512)
  // Measured: Intel's prefetchers alone reach half of the read rate there, AMD's all of it (docs/performance.md).
  if (__builtin_cpu_is("intel")) return 4096;
#endif
  return 0;
}

}  // namespace loci::cpu
