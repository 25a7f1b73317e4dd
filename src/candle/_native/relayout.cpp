#include "relayout.h"

#include <algorithm>

namespace candle {

int32_t crossing_axis(int32_t ndim, const Axis* axes) noexcept {
  int32_t found = ndim - 1;
  for (int32_t i = 0; i < ndim - 1; i++) {
    const int64_t step = magnitude(axes[i].from);
    if (step != 0 && step < magnitude(axes[found].from)) found = i;
  }
  return found == ndim - 1 ? -1 : found;
}

/// Takes two axes out of those to be walked around the grid; -1: none.
void Relayout::pick_grid(int32_t inner, int32_t outer) noexcept {
  grid_ = {grid_.item, 1, 0, 0, 1, 0, 0};
  int32_t kept = 0;
  for (int32_t i = 0; i < ndim_; i++) {
    const Axis axis = axes_[i];
    if (i == inner) {
      grid_.inner = axis.extent;
      grid_.to_inner = axis.to;
      grid_.from_inner = axis.from;
    } else if (i == outer) {
      grid_.outer = axis.extent;
      grid_.to_outer = axis.to;
      grid_.from_outer = axis.from;
    } else {
      axes_[kept++] = axis;
    }
  }
  ndim_ = kept;
}

void Relayout::plan(int64_t item, int32_t ndim, const Axis* axes, bool streams,
                    bool distant) noexcept {
  ndim_ = 0;
  for (int32_t i = 0; i < ndim; i++) {
    if (axes[i].extent > 1) axes_[ndim_++] = axes[i];
  }
  ndim_ = coalesce(axes_, ndim_);
  to_start_ = from_start_ = 0;
  grid_.item = item;
  if (ndim_ > 0 && axes_[ndim_ - 1].to == item && axes_[ndim_ - 1].from == item) {
    grid_.item = item * axes_[--ndim_].extent;
  }
  const bool in_rows = streams || ndim_ == 0 || grid_.item > 16 ||
                       (grid_.item & (grid_.item - 1)) != 0;  // else they are wider items
  const int32_t crossing = crossing_axis(ndim_, axes_);
  if (streams && crossing >= 0) {
    pick_grid(crossing, ndim_ - 1);  // as the source runs: it is what has to be waited for
  } else {
    pick_grid(ndim_ - 1, in_rows || crossing < 0 ? ndim_ - 2 : crossing);
  }
  if (!in_rows && crossing >= 0 && grid_.from_outer < 0) {  // backwards along both
    const int64_t steps = grid_.outer - 1;
    to_start_ = steps * grid_.to_outer;
    from_start_ = steps * grid_.from_outer;
    grid_.to_outer = -grid_.to_outer;
    grid_.from_outer = -grid_.from_outer;
  }
  if (grid_.inner == 1) grid_.to_inner = grid_.from_inner = grid_.item;
  kernel_ = in_rows ? row_kernel(streams) : grid_kernel(grid_, distant);
}

void Relayout::run(std::byte* to, const std::byte* from) const noexcept {
  to += to_start_;
  from += from_start_;
  if (ndim_ == 0) return kernel_(to, from, grid_);
  int64_t index[max_ndim];
  std::fill_n(index, ndim_, 0);
  for (;;) {
    kernel_(to, from, grid_);
    int32_t i = ndim_ - 1;
    for (; i >= 0; i--) {
      const Axis& axis = axes_[i];
      to += axis.to;
      from += axis.from;
      if (++index[i] < axis.extent) break;
      to -= axis.extent * axis.to;
      from -= axis.extent * axis.from;
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

}  // namespace candle
