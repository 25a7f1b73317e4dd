#include "simd.h"

#include <cstdlib>
#include <cstring>

namespace candle {

namespace {

Simd detect() noexcept {
  const char* wanted = std::getenv("CANDLE_SIMD");
  if (wanted != nullptr && std::strcmp(wanted, "baseline") == 0) return Simd::baseline;
#if CANDLE_HAS_AVX2
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi") &&
      __builtin_cpu_supports("bmi2")) {
    return Simd::avx2;
  }
#endif
  return Simd::baseline;
}

}  // namespace

Simd simd_level() noexcept {
  static const Simd level = detect();
  return level;
}

}  // namespace candle
