// How one number becomes another, without branches, so that loops over them become vector
// instructions. The rules are those of cast.h; the results those of cast_kernels. No Python here.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "float_formats.h"

namespace candle::numbers {

/// An element that is a number of C++ itself.
template <class T>
struct Number {
  using Stored = T;
  static T read(T stored) noexcept { return stored; }
};

/// An element of a format with at most 5 exponent bits, or of bfloat16.
template <FloatFormat f>
struct Small {
  using Stored = std::conditional_t<f.bits() == 8, uint8_t, uint16_t>;
  static float read(Stored stored) noexcept;
};

using Float = Number<float>;
using Double = Number<double>;
using Half = Small<float16_format>;
using Bfloat = Small<bfloat16_format>;

/// The fields of float and double. Patterns without their sign bit are ordered as the numbers are.
template <class Real>
struct Layout {
  using Pattern = std::conditional_t<sizeof(Real) == 4, uint32_t, uint64_t>;
  static constexpr int bits = 8 * sizeof(Real);
  static constexpr int mantissa_bits = sizeof(Real) == 4 ? 23 : 52;
  static constexpr int bias = sizeof(Real) == 4 ? 127 : 1023;
  static constexpr Pattern sign_bit = Pattern{1} << (bits - 1);
  static constexpr Pattern infinity = sign_bit - (Pattern{1} << mantissa_bits);

  static constexpr Pattern power_of_two(int exponent) {
    return static_cast<Pattern>(exponent + bias) << mantissa_bits;
  }
};

// Choices are masks: of a choice between two floats the compiler makes a branch.

/// All ones where the sign bit is set, else 0.
template <class Word>
Word sign_mask(Word word) noexcept {
  using Signed = std::make_signed_t<Word>;
  return static_cast<Word>(static_cast<Signed>(word) >> (8 * sizeof(Word) - 1));
}

/// All ones where a < b, else 0; neither has the sign bit set.
template <class Word>
Word less_mask(Word a, Word b) noexcept {
  return sign_mask(static_cast<Word>(a - b));
}

/// The smaller of two words without sign bit.
template <class Word>
Word smaller(Word a, Word b) noexcept {
  return static_cast<Word>(a + (less_mask(b, a) & (b - a)));
}

template <class Word>
Word larger(Word a, Word b) noexcept {
  return static_cast<Word>(a + (~less_mask(b, a) & (b - a)));
}

template <FloatFormat f>
float Small<f>::read(Stored stored) noexcept {
  constexpr int shift = 23 - f.mantissa_bits;
  const uint32_t code = stored;
  const uint32_t magnitude = code & (f.sign_bit() - 1);
  const uint32_t sign = (code & f.sign_bit()) << (32 - f.bits());
  const uint32_t is_special = less_mask(f.infinity() - 1, magnitude);
  const uint32_t is_ieee_nan = less_mask(f.infinity(), magnitude);
  if constexpr (f.exponent_bits == 8) {
    return std::bit_cast<float>(code << shift | (is_ieee_nan & 1U << 22));
  } else {
    // A subnormal number is what its code would mean one field further up, less the implicit bit:
    // so no subnormal float is met on the way, which a processor may be told to take for zero.
    constexpr uint32_t rebias = static_cast<uint32_t>(127 - f.bias) << 23;
    constexpr uint32_t one_up = 1U << 23;
    const uint32_t is_subnormal = less_mask(magnitude, 1U << f.mantissa_bits);
    const uint32_t raised = (magnitude << shift) + rebias + (is_subnormal & one_up);
    uint32_t pattern = std::bit_cast<uint32_t>(
        std::bit_cast<float>(raised) - std::bit_cast<float>(is_subnormal & (rebias + one_up)));
    if constexpr (f.specials == FloatFormat::Specials::ieee) {
      pattern |= (is_special & 0x7f800000U) | (is_ieee_nan & 0x00400000U);
    } else {
      constexpr bool has_sign = f.specials == FloatFormat::Specials::nan;
      const uint32_t is_nan =
          has_sign ? less_mask(f.sign_bit() - 2, magnitude)
                   : less_mask(f.sign_bit() - 1, code) & less_mask(code, f.sign_bit() + 1);
      pattern = (pattern & ~is_nan) | (is_nan & 0x7fc00000U);
    }
    return std::bit_cast<float>(pattern | sign);
  }
}

/// Rounds a float or double to a small format. Adding a power of two so large that its last bit is
/// the last one to be kept lets the processor do the rounding.
template <FloatFormat f, class Real>
typename Small<f>::Stored round_real(Real value) noexcept {
  using Stored = typename Small<f>::Stored;
  using L = Layout<Real>;
  using Pattern = typename L::Pattern;
  constexpr int shift = L::mantissa_bits - f.mantissa_bits;
  const auto pattern = std::bit_cast<Pattern>(value);
  const Pattern absolute = pattern & ~L::sign_bit;
  const Pattern sign = (pattern & L::sign_bit) >> (L::bits - f.bits());
  Pattern code;
  if constexpr (f.exponent_bits == 8 && sizeof(Real) == 4) {
    code = (absolute + 0x7fffU + (absolute >> 16 & 1)) >> 16;
  } else {
    // Whatever overflows is taken for the number that the code after the largest would stand for.
    constexpr Pattern lowest = L::power_of_two(1 - f.bias);
    constexpr Pattern beyond =
        (Pattern{f.largest() + 1} << shift) + lowest - (Pattern{1} << L::mantissa_bits);
    const Pattern clamped = smaller(absolute, beyond);
    const Pattern exponent = larger(clamped, lowest) & L::infinity;
    const Pattern large = exponent + (Pattern{shift} << L::mantissa_bits);
    const Pattern kept =
        std::bit_cast<Pattern>(std::bit_cast<Real>(clamped) + std::bit_cast<Real>(large)) - large;
    code = kept + ((exponent - lowest) >> shift);
  }
  if constexpr (f.specials == FloatFormat::Specials::ieee) {
    const Pattern is_nan = less_mask(L::infinity, absolute);
    const Pattern nan = f.nan(false, 0) | (absolute >> shift & ((1U << f.mantissa_bits) - 1));
    code = (code & ~is_nan) | (nan & is_nan);
  } else if constexpr (f.specials == FloatFormat::Specials::unsigned_zero) {
    return static_cast<Stored>(code | (sign & less_mask(Pattern{0}, code)));
  }  // else what overflows has become the code of NaN
  return static_cast<Stored>(code | sign);
}

/// Truncates towards zero; what lies outside becomes the nearest integer that lies inside, NaN
/// becomes 0.
template <class T, class Real>
T saturate(Real value) noexcept {
  if constexpr (sizeof(T) > sizeof(Real)) return saturate<T>(static_cast<double>(value));
  using L = Layout<Real>;
  using Pattern = typename L::Pattern;
  using Wide = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  using Word = std::make_unsigned_t<Wide>;
  constexpr int digits = std::numeric_limits<T>::digits;
  constexpr Pattern beyond = L::power_of_two(digits);
  const auto pattern = std::bit_cast<Pattern>(value);
  const Pattern absolute = pattern & ~L::sign_bit;
  const auto is_nan = static_cast<Word>(less_mask(L::infinity, absolute));
  const auto is_large = static_cast<Word>(less_mask(beyond - 1, absolute));
  const auto is_negative = static_cast<Word>(sign_mask(pattern));
  const Pattern clamped = smaller(absolute, beyond - 1);
  Word magnitude;
  if constexpr (std::numeric_limits<Wide>::digits < digits) {  // by way of the signed conversion
    constexpr Pattern half = L::power_of_two(digits - 1);
    const Pattern is_upper = less_mask(half - 1, clamped);
    const Real lower = std::bit_cast<Real>(clamped) - std::bit_cast<Real>(is_upper & half);
    magnitude =
        static_cast<Word>(static_cast<Wide>(lower)) + (static_cast<Word>(is_upper) << (digits - 1));
  } else {
    magnitude = static_cast<Word>(static_cast<Wide>(std::bit_cast<Real>(clamped)));
  }
  magnitude |= is_large & std::numeric_limits<T>::max();
  if constexpr (std::is_signed_v<T>) {  // of what is too large the lowest is the complement
    magnitude = (magnitude ^ is_negative) - (is_negative & ~is_large);
  } else {
    magnitude &= ~is_negative;
  }
  return static_cast<T>(magnitude & ~is_nan);
}

/// An integer of at most `digits` significant bits whose rounding to two bits less or fewer gives
/// what that of `value` gives: the bits beyond become one that says whether there are any.
template <int digits, class T>
T fold(T value) noexcept {
  using Unsigned = std::make_unsigned_t<T>;
  constexpr int excess = static_cast<int>(8 * sizeof(T)) - digits;
  constexpr Unsigned rest = (Unsigned{1} << excess) - 1;
  const auto bits = static_cast<Unsigned>(value);
  const Unsigned folded = (bits | ((bits & rest) + rest)) & ~rest;
  constexpr Unsigned limit = Unsigned{1} << digits;
  bool is_large;
  if constexpr (std::is_signed_v<T>) {
    is_large = value < -static_cast<T>(limit) || value > static_cast<T>(limit);
  } else {
    is_large = value > limit;
  }
  return static_cast<T>(is_large ? folded : bits);
}

/// Rounds once. Integers of 64 bits are the sum of two doubles made of their halves.
template <class T>
double to_double(T value) noexcept {
  if constexpr (sizeof(T) < 8) {
    return static_cast<double>(value);
  } else {
    constexpr uint64_t low_unit = 0x4330000000000000U;   // 2**52
    constexpr uint64_t high_unit = 0x4530000000000000U;  // 2**84
    constexpr uint64_t sign = std::is_signed_v<T> ? uint64_t{1} << 31 : 0;
    constexpr double units = std::is_signed_v<T> ? 0x1p84 + 0x1p63 + 0x1p52 : 0x1p84 + 0x1p52;
    const auto bits = static_cast<uint64_t>(value);
    const auto low = std::bit_cast<double>((bits & 0xffffffffU) | low_unit);
    const auto high = std::bit_cast<double>((bits >> 32 ^ sign) | high_unit);
    return (high - units) + low;
  }
}

template <class T>
float to_float(T value) noexcept {
  if constexpr (sizeof(T) == 8 && std::is_integral_v<T>) {
    return static_cast<float>(to_double(fold<53>(value)));
  } else {
    return static_cast<float>(value);
  }
}

template <FloatFormat f, class T>
typename Small<f>::Stored round_integer(T value) noexcept {
  if constexpr (sizeof(T) <= 2) {
    return round_real<f>(static_cast<float>(value));
  } else if constexpr (f.exponent_bits < 8) {  // 2**20 overflows
    constexpr T bound = T{1} << 20;
    T clamped = value < bound ? value : bound;
    if constexpr (std::is_signed_v<T>) clamped = clamped > -bound ? clamped : -bound;
    return round_real<f>(static_cast<float>(static_cast<int32_t>(clamped)));
  } else if constexpr (sizeof(T) == 4) {
    return round_real<f>(static_cast<float>(fold<24>(value)));
  } else {
    return round_real<f>(to_double(fold<53>(value)));
  }
}

/// An element of float or double whose bits are kept, but for a NaN's becoming quiet.
template <class Real>
struct Quiet {
  using Stored = typename Layout<Real>::Pattern;
  static Stored read(Stored stored) noexcept {
    using L = Layout<Real>;
    constexpr Stored quiet = Stored{1} << (L::mantissa_bits - 1);
    return stored | (less_mask(L::infinity, stored & ~L::sign_bit) & quiet);
  }
};

/// An integer that a float of so many digits can hold, for a later rounding: see `fold`.
template <class T, int digits>
struct Folded {
  using Stored = T;
  static T read(T stored) noexcept { return fold<digits>(stored); }
};

template <class To>
struct Convert;

template <class T>
struct Convert<Number<T>> {
  template <class C>
  static T from(C value) noexcept {
    if constexpr (std::is_same_v<T, C>) {
      return value;
    } else if constexpr (std::is_same_v<T, float>) {
      return to_float(value);
    } else if constexpr (std::is_same_v<T, double>) {
      return to_double(value);
    } else if constexpr (std::is_floating_point_v<C>) {
      return saturate<T>(value);
    } else {
      return static_cast<T>(value);
    }
  }
};

template <FloatFormat f>
struct Convert<Small<f>> {
  template <class C>
  static typename Small<f>::Stored from(C value) noexcept {
    if constexpr (std::is_floating_point_v<C>) {
      return round_real<f>(value);
    } else {
      return round_integer<f>(value);
    }
  }
};

}  // namespace candle::numbers
