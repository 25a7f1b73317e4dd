// Which vector instructions may be used: asked of the processor at run time. No Python here.
//
// Code for more than the compiler's baseline stands between CANDLE_BEGIN_AVX2 (or _AVX512) and
// CANDLE_END_SIMD, in an unnamed namespace and after all includes: an inline function of a header
// that was compiled for more could become the one copy that the linker keeps for everybody.
#pragma once

#include <cstdint>

// For Windows, gcc aligns no stack to more than 16 bytes, and keeps wide registers there as if it
// did (its bug 54412).
#if defined(__x86_64__) && (defined(__clang__) || !defined(_WIN32))
#define CANDLE_HAS_AVX2 1
#define CANDLE_HAS_AVX512 1
#if defined(__clang__)
// clang-format off: a pragma is one string
#define CANDLE_BEGIN_AVX2 \
  _Pragma("clang attribute push(__attribute__((target(\"avx2,fma,f16c,bmi,bmi2\"))), apply_to = function)")
#define CANDLE_BEGIN_AVX512 \
  _Pragma("clang attribute push(__attribute__((target(\"avx2,fma,f16c,bmi,bmi2,avx512f,avx512bw,avx512vl,avx512dq\"))), apply_to = function)")
// clang-format on
#define CANDLE_END_SIMD _Pragma("clang attribute pop")
#else
#define CANDLE_BEGIN_AVX2 \
  _Pragma("GCC push_options") _Pragma("GCC target(\"avx2,fma,f16c,bmi,bmi2\")")
// clang-format off: a pragma is one string
#define CANDLE_BEGIN_AVX512 \
  _Pragma("GCC push_options") \
  _Pragma("GCC target(\"avx2,fma,f16c,bmi,bmi2,avx512f,avx512bw,avx512vl,avx512dq\")")
// clang-format on
#define CANDLE_END_SIMD _Pragma("GCC pop_options")
#endif
#else
#define CANDLE_HAS_AVX2 0
#define CANDLE_HAS_AVX512 0
#endif

namespace candle {

/// Each level holds those before it.
enum class Simd : uint8_t { baseline, avx2, avx512 };

/// The most that this processor and system run; less where the environment variable CANDLE_SIMD
/// names less. Asked once.
Simd simd_level() noexcept;

/// What CANDLE_SIMD calls a level.
const char* simd_name(Simd level) noexcept;

}  // namespace candle
