// Floating-point formats of at most 16 bits: what their codes mean, and the one rounding to them.
// No Python here.
#pragma once

#include <dlpack/dlpack.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace candle {

/// Sign, exponent and mantissa fields, from the highest bit down; exponent field 0 is zero and the
/// subnormals.
struct FloatFormat {
  enum class Specials : uint8_t {
    ieee,           // the highest exponent field is infinity and NaN
    nan,            // all ones is NaN; no infinity ("fn")
    unsigned_zero,  // the code of -0 is the only NaN; no infinity ("fnuz")
    none,           // every code is a finite number
  };
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;

  constexpr int bits() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr uint32_t sign_bit() const { return 1U << (exponent_bits + mantissa_bits); }
  constexpr uint32_t infinity() const { return sign_bit() - (1U << mantissa_bits); }

  /// The code of the largest finite number.
  constexpr uint32_t largest() const {
    if (specials == Specials::ieee) return infinity() - 1;
    return specials == Specials::nan ? sign_bit() - 2 : sign_bit() - 1;
  }

  constexpr uint32_t zero(bool negative) const {
    return negative && specials != Specials::unsigned_zero ? sign_bit() : 0;
  }

  /// The quiet NaN of this sign and, where the format has infinities, of the first bits of this
  /// payload, which begins at the highest bit; +0 where the format has no NaN, as NaN becomes 0 in
  /// an integer.
  constexpr uint32_t nan(bool negative, uint64_t payload) const {
    const uint32_t sign = negative ? sign_bit() : 0;
    switch (specials) {
      case Specials::ieee:
        return sign | infinity() | 1U << (mantissa_bits - 1) |
               static_cast<uint32_t>(payload >> (64 - mantissa_bits));
      case Specials::nan:
        return sign | (sign_bit() - 1);
      case Specials::unsigned_zero:
        return sign_bit();
      default:
        return 0;
    }
  }

  /// What a number beyond the largest finite one becomes.
  constexpr uint32_t overflow(bool negative) const {
    const uint32_t sign = negative ? sign_bit() : 0;
    if (specials == Specials::ieee) return sign | infinity();
    return specials == Specials::none ? sign | largest() : nan(negative, 0);
  }

  constexpr bool is_nan(uint32_t code) const {
    const uint32_t magnitude = code & (sign_bit() - 1);
    switch (specials) {
      case Specials::ieee:
        return magnitude > infinity();
      case Specials::nan:
        return magnitude == sign_bit() - 1;
      case Specials::unsigned_zero:
        return code == sign_bit();
      default:
        return false;
    }
  }

  /// The code nearest to ±significand * 2**exponent; of two equally near, the even one.
  constexpr uint32_t round(bool negative, uint64_t significand, int exponent) const {
    if (significand == 0) return zero(negative);
    const int lowest = 1 - bias - mantissa_bits;  // exponent of the subnormals' last bit
    const int top = exponent + 63 - std::countl_zero(significand);
    const int last = std::max(top - mantissa_bits, lowest);
    const int dropped = last - exponent;
    uint64_t kept = 0;
    if (dropped <= 0) {
      kept = significand << -dropped;
    } else if (dropped <= 64) {
      const uint64_t halves = significand >> (dropped - 1);
      const bool below = (significand & ((uint64_t{1} << (dropped - 1)) - 1)) != 0;
      kept = (halves >> 1) + (halves & 1 & (static_cast<uint64_t>(below) | halves >> 1));
    }
    // Numbers above the subnormals keep their implicit bit in `kept`: adding counts the exponent
    // field up by it, and by the carry of a mantissa that was rounded up to a power of two.
    const uint64_t code = (static_cast<uint64_t>(last - lowest) << mantissa_bits) + kept;
    if (code == 0) return zero(negative);
    if (code > largest()) return overflow(negative);
    return static_cast<uint32_t>(code) | (negative ? sign_bit() : 0);
  }

  /// The value of a code; exact, as float32 holds every number of formats with at most 5 exponent
  /// bits.
  constexpr float value(uint32_t code) const {
    const uint32_t magnitude = code & (sign_bit() - 1);
    const uint32_t sign = (code & sign_bit()) != 0 ? 1U << 31 : 0;
    uint32_t pattern = 0;
    if (is_nan(code)) {
      const uint32_t payload = magnitude << (23 - mantissa_bits) & 0x003fffffU;
      pattern = 0x7fc00000U | (specials == Specials::ieee ? payload : 0);
    } else if (specials == Specials::ieee && magnitude == infinity()) {
      pattern = 0x7f800000U;
    } else {
      const uint32_t field = magnitude >> mantissa_bits;
      const uint32_t implicit = field == 0 ? 0 : 1U << mantissa_bits;
      const uint32_t significand = (magnitude & ((1U << mantissa_bits) - 1)) | implicit;
      const int last = std::max(static_cast<int>(field), 1) - bias - mantissa_bits;
      const float unit = std::bit_cast<float>(static_cast<uint32_t>(last + 127) << 23);
      pattern = std::bit_cast<uint32_t>(static_cast<float>(significand) * unit);
    }
    return std::bit_cast<float>(pattern | sign);
  }
};

/// float8_e8m0fnu, which has neither sign nor zero: code c is 2**(c - 127), 255 is NaN.
struct PowerOfTwoFormat {
  static constexpr uint32_t nan = 255;

  /// The nearest power of two; of two equally near the larger, as ml_dtypes and torch have it: a
  /// significand of one bit is odd in both.
  static constexpr uint32_t round(bool negative, uint64_t significand, int exponent) {
    if (negative || significand == 0) return nan;
    const int width = 64 - std::countl_zero(significand);
    int code = exponent + width - 1 + 127;
    const uint64_t doubled_rest = (significand - (uint64_t{1} << (width - 1))) << 1;
    const uint64_t middle = uint64_t{1} << (width - 1);
    if (doubled_rest >= middle) code++;
    return static_cast<uint32_t>(std::clamp(code, 0, 255));
  }

  static constexpr float value(uint32_t code) {
    if (code == nan) return std::bit_cast<float>(0x7fc00000U);
    return std::bit_cast<float>(code == 0 ? 0x00400000U : code << 23);  // 2**-127 is subnormal
  }
};

inline constexpr FloatFormat float16_format{5, 10, 15, FloatFormat::Specials::ieee};
inline constexpr FloatFormat bfloat16_format{8, 7, 127, FloatFormat::Specials::ieee};

/// One byte's worth of floating point: the values of all its codes; bits above the format's do not
/// count.
struct SmallFloat {
  FloatFormat format;  // means nothing for float8_e8m0fnu
  float values[256];
};

namespace detail {

constexpr SmallFloat make_small_float(FloatFormat format) {
  SmallFloat small{format, {}};
  const uint32_t mask = (1U << format.bits()) - 1;
  for (uint32_t i = 0; i < 256; i++) small.values[i] = format.value(i & mask);
  return small;
}

constexpr SmallFloat make_power_of_two() {
  SmallFloat small{};
  for (uint32_t i = 0; i < 256; i++) small.values[i] = PowerOfTwoFormat::value(i);
  return small;
}

}  // namespace detail

/// By DLPack code, from kDLFloat8_e3m4 on.
inline constexpr SmallFloat small_floats[] = {
    detail::make_small_float({3, 4, 3, FloatFormat::Specials::ieee}),  // float8_e3m4
    detail::make_small_float({4, 3, 7, FloatFormat::Specials::ieee}),  // float8_e4m3
    detail::make_small_float(
        {4, 3, 11, FloatFormat::Specials::unsigned_zero}),            // float8_e4m3b11fnuz
    detail::make_small_float({4, 3, 7, FloatFormat::Specials::nan}),  // float8_e4m3fn
    detail::make_small_float({4, 3, 8, FloatFormat::Specials::unsigned_zero}),   // float8_e4m3fnuz
    detail::make_small_float({5, 2, 15, FloatFormat::Specials::ieee}),           // float8_e5m2
    detail::make_small_float({5, 2, 16, FloatFormat::Specials::unsigned_zero}),  // float8_e5m2fnuz
    detail::make_power_of_two(),                                                 // float8_e8m0fnu
    detail::make_small_float({2, 3, 1, FloatFormat::Specials::none}),            // float6_e2m3fn
    detail::make_small_float({3, 2, 3, FloatFormat::Specials::none}),            // float6_e3m2fn
    detail::make_small_float({2, 1, 1, FloatFormat::Specials::none}),            // float4_e2m1fn
};
static_assert(kDLFloat8_e3m4 == 7 && kDLFloat8_e8m0fnu == 14 && kDLFloat4_e2m1fn == 17);

}  // namespace candle
