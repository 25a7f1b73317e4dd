#include "simd.h"

#if CANDLE_HAS_AVX2
#include <cpuid.h>
#endif

#include <cstdlib>
#include <cstring>

namespace candle {

namespace {

constexpr const char* names[] = {"baseline", "avx2", "avx512"};

#if CANDLE_HAS_AVX2
/// Conversions of 16-bit floats. Not every compiler's __builtin_cpu_supports knows them.
bool has_f16c() noexcept {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

#if CANDLE_HAS_AVX2 && defined(_MSC_VER)
/// clang-cl's __builtin_cpu_supports is in a library that the linker is not given.
Simd ask_processor() noexcept {
  constexpr uint32_t osxsave = 1U << 27, fma = 1U << 12;
  constexpr uint32_t bmi = 1U << 3, avx2 = 1U << 5, bmi2 = 1U << 8;
  constexpr uint32_t avx512 = 1U << 16 | 1U << 17 | 1U << 30 | 1U << 31;  // f, dq, bw, vl
  constexpr uint32_t vbmi2 = 1U << 6;
  constexpr uint32_t wide = 0x6, wider = 0xe6;  // registers that the system keeps
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return Simd::baseline;
  if ((ecx & osxsave) == 0 || (ecx & fma) == 0 || !has_f16c()) return Simd::baseline;
  unsigned int kept = 0;
  asm volatile("xgetbv" : "=a"(kept), "=d"(edx) : "c"(0));
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return Simd::baseline;
  constexpr uint32_t all = avx2 | bmi | bmi2;
  if ((kept & wide) != wide || (ebx & all) != all) return Simd::baseline;
  const bool most = (kept & wider) == wider && (ebx & avx512) == avx512 && (ecx & vbmi2) != 0;
  return most ? Simd::avx512 : Simd::avx2;
}
#endif

Simd best() noexcept {
#if CANDLE_HAS_AVX2 && defined(_MSC_VER)
  return ask_processor();
#elif CANDLE_HAS_AVX2
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c() &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  if (!avx2) return Simd::baseline;
  // Processors that lack the last of these slow their clock down for wide registers.
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vbmi2");
  return avx512 ? Simd::avx512 : Simd::avx2;
#else
  return Simd::baseline;
#endif
}

Simd detect() noexcept {
  const Simd most = best();
  const char* wanted = std::getenv("CANDLE_SIMD");
  if (wanted == nullptr) return most;
  for (uint8_t level = 0; level < static_cast<uint8_t>(most); level++) {
    if (std::strcmp(wanted, names[level]) == 0) return static_cast<Simd>(level);
  }
  return most;
}

}  // namespace

Simd simd_level() noexcept {
  static const Simd level = detect();
  return level;
}

const char* simd_name(Simd level) noexcept { return names[static_cast<uint8_t>(level)]; }

}  // namespace candle
