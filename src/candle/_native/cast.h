// Casts of one element: the one statement of candle's rounding rules. No Python here.
#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>

namespace candle {

/// A number as it was before it became an element: exact for every Python number that a tensor can
/// hold.
struct Scalar {
  enum class Kind : uint8_t { boolean, signed_int, unsigned_int, real, complex_number };
  Kind kind = Kind::signed_int;
  int64_t integer = 0;            // boolean (0 or 1) and signed_int
  uint64_t unsigned_integer = 0;  // unsigned_int
  double real = 0;                // real, and the real part of a complex number
  double imaginary = 0;
};

/// Whether elements of `from` can become elements of `to`. Complex to real cannot; torch's fp4
/// pairs only stay themselves.
bool can_cast(DLDataType from, DLDataType to) noexcept;

/// Reads the element that begins `bit` bits after `data`, its bytes in the machine's order. The
/// dtype is a row of dtype_table and no pair type.
Scalar load_scalar(const std::byte* data, int64_t bit, DLDataType dtype) noexcept;

/// Writes one element, cast by the rules below; false where `can_cast` forbids it. Bits beside a
/// packed element stay.
///
/// One rounding from the source value, to nearest even. Overflow gives inf where the type has it,
/// else NaN; where the type has neither (fp6, fp4), the largest of that sign. To float8_e8m0fnu:
/// the nearest power of two, ties to the larger, below the smallest the smallest, zero and negative
/// NaN. Float to integer truncates and saturates, NaN becomes 0. Integer to integer
/// wraps. Anything to bool is `!= 0`.
bool store_scalar(std::byte* data, int64_t bit, DLDataType dtype, const Scalar& value) noexcept;

}  // namespace candle
