// Kernels of copies of small grids, for each set of vector instructions. No Python here.
#pragma once

#include "blocks.h"

namespace candle {

/// What a table of kernels holds for each size of item, by the binary logarithm of its bytes.
struct SizedKernels {
  GridKernel any;         // any steps
  GridKernel transposed;  // to_inner == item == from_outer; at least `least` items on either axis
  GridKernel gather[6];   // to_inner == item; from_inner == (i - 1) items, for i = 0 to 5
  int least;
};

struct GridKernels {
  SizedKernels sized[5];
  GridKernel rows;
  GridKernel streamed_rows;
  /// to_inner == item == from_outer, and either to_outer == inner * item (`interleave`) or
  /// from_inner == outer * item (`separate`), the short axis having up to `most_mixed` items.
  /// nullptr where there is none.
  GridKernel interleave;
  GridKernel separate;
};

inline constexpr int64_t most_mixed = 15;

/// Transposes (to_inner == item == from_outer) that write whole lines of 64 bytes and read them
/// whole, however far apart the rows are: at least a line of items on the inner axis, and 16 bytes
/// of them on the outer one. `distant`: the source is fetched from beyond the caches.
struct TileKernels {
  GridKernel cached;
  GridKernel distant;
};

extern const GridKernels baseline_grids;
extern const GridKernels avx2_grids;       // only where CANDLE_HAS_AVX2
extern const TileKernels avx512_tiles[5];  // only where CANDLE_HAS_AVX512

}  // namespace candle
