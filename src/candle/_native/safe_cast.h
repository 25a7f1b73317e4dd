// Whether a cast keeps values: Arrow's rule, by which its consumers name a type and are told where
// the values are not of it. No Python here.
#pragma once

#include "cast.h"
#include "copy.h"
#include "dtype_table.h"

namespace candle {

/// Significant bits of a float that holds all integers of as many; of a complex number's component.
/// 0 for other dtypes, and for floats of 8 bits and less.
int exact_integer_bits(DTypeId dtype) noexcept;

/// Whether a cast keeps every value there is. Kept is: of anything as a bool, and of floats as
/// floats, whatever it becomes (rounding and infinities are no loss to Arrow), unless NaN is made
/// of a number; of floats as integers, a whole number in range; of integers, one in range, which in
/// floats is that of `exact_integer_bits`, in smaller ones what comes back the same.
bool always_keeps(DTypeId from, DTypeId to) noexcept;

/// Finds the first element, in row-major order, that a cast would not keep: its index and its
/// value. False where there is none. The dtypes can be cast. Needs no GIL.
bool first_lost(const Side& from, int32_t ndim, const int64_t* shape, DTypeId to, int64_t* index,
                Scalar* value) noexcept;

}  // namespace candle
