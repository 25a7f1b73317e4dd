// Copies of small grids of items whose bits stay: transposed in registers, interleaved, strided, or
// row by row. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace candle {

/// `outer` times `inner` items; steps in bytes, of any sign. `item` is the bytes of one: 1, 2, 4, 8
/// or 16, or any number where they are rows.
struct Grid {
  int64_t item;
  int64_t outer, to_outer, from_outer;
  int64_t inner, to_inner, from_inner;
};

using GridKernel = void (*)(std::byte* to, const std::byte* from, const Grid& grid) noexcept;

/// The fastest kernel for a grid whose items have 1, 2, 4, 8 or 16 bytes. It may be used for grids
/// of the same steps and extents only. `distant`: the source lies beyond the caches.
GridKernel grid_kernel(const Grid& grid, bool distant) noexcept;

/// Whether a transpose of such items goes in whole lines of both sides, so that it matters little
/// which of them share a place in the cache.
bool transposes_lines(int64_t item, int64_t inner, int64_t outer) noexcept;

/// The kernel for items of any number of bytes. `streams`: past the caches.
GridKernel row_kernel(bool streams) noexcept;

/// After it other threads see what went past the caches.
void finish_streaming() noexcept;

}  // namespace candle
