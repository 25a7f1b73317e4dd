// Casts of one pass, for the pairs of dtypes that people use. No Python here.
#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>

namespace candle {

/// Elements that a direct cast handles at a time.
inline constexpr int64_t cast_block = 32;

/// Casts `blocks` times `cast_block` elements that lie one after the other, in native byte order.
/// The two runs do not overlap; neither need be aligned.
using CastRun = void (*)(const std::byte* from, std::byte* to, int64_t blocks,
                         uint64_t constant) noexcept;

struct DirectCast {
  CastRun run;  // nullptr: there is none for this pair
  uint64_t constant;
};

/// The cast between two dtypes that differ, in the best instructions of this processor. Of complex
/// dtypes it knows complex64 and complex32 to bool, float32 to complex64, float64 to complex128.
DirectCast direct_cast(DLDataType from, DLDataType to) noexcept;

/// What one level of instructions has; the rows by the binary logarithm of an element's bytes.
struct CastTable {
  CastRun (*between)(DLDataType from, DLDataType to) noexcept;  // neither is bool
  CastRun any_bit[4];      // to bool; the constant is the mask of the bits that count
  CastRun one_or_zero[4];  // from bool; the constant is the code of one
};

const CastTable& baseline_casts() noexcept;
const CastTable& avx2_casts() noexcept;    // only where CANDLE_HAS_AVX2
const CastTable& avx512_casts() noexcept;  // only where CANDLE_HAS_AVX512

}  // namespace candle
