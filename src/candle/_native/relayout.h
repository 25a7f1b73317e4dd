// Copies of items whose bits stay, from any layout to any other. No Python here.
#pragma once

#include "blocks.h"
#include "walk.h"

namespace candle {

/// Planned once for a shape and its strides, run at any places.
class Relayout {
 public:
  /// Items of 1, 2, 4, 8 or 16 bytes; axes sorted as in a Walk, strides in bytes. `streams`: what
  /// lies in rows goes past the caches. `distant`: the source lies beyond them.
  void plan(int64_t item, int32_t ndim, const Axis* axes, bool streams, bool distant) noexcept;

  /// The two sides do not overlap.
  void run(std::byte* to, const std::byte* from) const noexcept;

 private:
  void pick_grid(int32_t inner, int32_t outer) noexcept;

  int32_t ndim_;  // of the axes around the grid
  Axis axes_[max_ndim];
  Grid grid_;
  GridKernel kernel_;
  int64_t to_start_, from_start_;
};

/// Which axis the source runs along, if it is not the one the destination runs along, the last;
/// else -1.
int32_t crossing_axis(int32_t ndim, const Axis* axes) noexcept;

}  // namespace candle
