#include "walk.h"

#include <algorithm>

#include "cast_kernels.h"

namespace candle {

namespace {

/// Whether `outer` is to be walked outside `inner`.
bool is_outer(const Axis& outer, const Axis& inner) noexcept {
  if (outer.to != inner.to) return outer.to > inner.to;
  return magnitude(outer.from) > magnitude(inner.from);
}

/// Addresses in bits: of the first bit touched and of the one after the last.
struct Range {
  int64_t begin;
  int64_t end;
};

/// Which bits the axes reach; those whose stride is a multiple of `period` are left out, unless it
/// is 0.
Range reach(const Walk& walk, const Place& place, int64_t Axis::* stride, int64_t period) noexcept {
  Range range{place.start, place.start + place.bits()};
  for (int32_t i = 0; i < walk.ndim; i++) {
    const int64_t step = walk.axes[i].*stride;
    if (period != 0 && step % period == 0) continue;
    const int64_t end = (walk.axes[i].extent - 1) * step;
    (end < 0 ? range.begin : range.end) += end;
  }
  range.begin &= ~int64_t{7};  // whole bytes are written
  range.end = (range.end + 7) & ~int64_t{7};
  return range;
}

/// Whether the sides stay in different parts of each stretch of `period` bits, as two columns of
/// one matrix do.
bool apart_within(const Walk& walk, int64_t distance, int64_t period) noexcept {
  const Range dst = reach(walk, walk.dst, &Axis::to, period);
  const Range src = reach(walk, walk.src, &Axis::from, period);
  int64_t gap = (src.begin + distance - dst.begin) % period;
  if (gap < 0) gap += period;
  return gap >= dst.end - dst.begin && gap + (src.end - src.begin) <= period;
}

}  // namespace

int32_t coalesce(Axis* axes, int32_t ndim) noexcept {
  int32_t kept = 0;
  for (int32_t i = 0; i < ndim; i++) {
    const Axis axis = axes[i];
    if (kept > 0) {
      Axis& outer = axes[kept - 1];
      if (outer.to == axis.extent * axis.to && outer.from == axis.extent * axis.from) {
        outer = {outer.extent * axis.extent, axis.to, axis.from};
        continue;
      }
    }
    axes[kept++] = axis;
  }
  return kept;
}

void make_walk(const Side& dst, const Side& src, int32_t ndim, const int64_t* shape,
               Walk* walk) noexcept {
  walk->dst = {dst.data, 0, dst.dtype, false, dst.padded};
  walk->src = {src.data, 0, src.dtype, src.swapped, src.padded};
  walk->ndim = 0;
  for (int32_t i = 0; i < ndim; i++) {
    if (shape[i] == 1) continue;
    Axis axis{shape[i], dst.strides[i], src.strides[i]};
    if (axis.to < 0) {
      walk->dst.start += (axis.extent - 1) * axis.to;
      walk->src.start += (axis.extent - 1) * axis.from;
      axis.to = -axis.to;
      axis.from = -axis.from;
    }
    int32_t at = walk->ndim++;
    for (; at > 0 && is_outer(axis, walk->axes[at - 1]); at--) walk->axes[at] = walk->axes[at - 1];
    walk->axes[at] = axis;
  }
  walk->ndim = coalesce(walk->axes, walk->ndim);
}

bool may_overlap(const Walk& walk) noexcept {
  const Range dst = reach(walk, walk.dst, &Axis::to, 0);
  const Range src = reach(walk, walk.src, &Axis::from, 0);
  const intptr_t between =
      reinterpret_cast<intptr_t>(walk.src.data) - reinterpret_cast<intptr_t>(walk.dst.data);
  // In bytes: 8 times a difference of two addresses need not fit.
  if (dst.end >> 3 <= between + (src.begin >> 3) || between + (src.end >> 3) <= dst.begin >> 3) {
    return false;
  }
  const int64_t distance = static_cast<int64_t>(between) * 8;
  for (int32_t i = 0; i < walk.ndim; i++) {
    const Axis& axis = walk.axes[i];
    for (const int64_t period : {axis.to, magnitude(axis.from)}) {
      if (period != 0 && period % 8 == 0 && apart_within(walk, distance, period)) return false;
    }
  }
  return true;
}

bool is_as_is(const Walk& walk) noexcept {
  const Place& dst = walk.dst;
  const Place& src = walk.src;
  return same_dtype(dst.dtype, src.dtype) && dst.packed() == src.packed() && !src.swapped;
}

}  // namespace candle
