#include "copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cast.h"
#include "cast_kernels.h"
#include "copy_packed.h"
#include "pipeline.h"
#include "walk.h"

namespace candle {

namespace {

/// Whether every element would be copied onto itself, unchanged.
bool is_no_op(const Walk& walk) noexcept {
  const Place& dst = walk.dst;
  const Place& src = walk.src;
  return dst.data == src.data && dst.start == src.start && is_as_is(walk) &&
         std::all_of(walk.axes, walk.axes + walk.ndim,
                     [](const Axis& axis) { return axis.to == axis.from; });
}

/// Copies between places that do not overlap.
void copy_apart(const Walk& walk) noexcept {
  if (walk.dst.packed() || walk.src.packed()) {
    copy_packed(walk);
  } else {
    copy_boxes(walk);
  }
}

/// Whether the sides are one layout in two places, whose elements do not overlap each other.
bool is_shift(const Walk& walk) noexcept {
  if (!is_as_is(walk) || walk.dst.packed()) return false;
  int64_t reach = walk.dst.bits();
  for (int32_t i = walk.ndim - 1; i >= 0; i--) {
    const Axis& axis = walk.axes[i];
    if (axis.to != axis.from || axis.to < reach) return false;
    reach += (axis.extent - 1) * axis.to;
  }
  return true;
}

/// Copies a shift: towards lower addresses from the lowest element on, else from the highest.
void copy_shift(const Walk& walk) noexcept {
  std::byte* to = walk.dst.data + (walk.dst.start >> 3);
  const std::byte* from = walk.src.data + (walk.src.start >> 3);
  const bool down = to < from;
  auto item = static_cast<size_t>(walk.dst.bits() >> 3);
  int32_t ndim = walk.ndim;
  if (ndim > 0 && walk.axes[ndim - 1].to == walk.dst.bits()) {
    item *= static_cast<size_t>(walk.axes[--ndim].extent);
  }
  int64_t steps[max_ndim], index[max_ndim];
  for (int32_t i = 0; i < ndim; i++) {
    steps[i] = walk.axes[i].to / 8;
    index[i] = 0;
    if (down) continue;
    to += (walk.axes[i].extent - 1) * steps[i];
    from += (walk.axes[i].extent - 1) * steps[i];
    steps[i] = -steps[i];
  }
  for (;;) {
    std::memmove(to, from, item);
    int32_t i = ndim - 1;
    for (; i >= 0; i--) {
      to += steps[i];
      from += steps[i];
      if (++index[i] < walk.axes[i].extent) break;
      to -= walk.axes[i].extent * steps[i];
      from -= walk.axes[i].extent * steps[i];
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

struct Free {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, Free>;

/// Reads the source of the walk whole, and has the walk read the result instead. Empty when there
/// is no memory.
Memory read_whole(Walk* walk) noexcept {
  Walk reading;
  reading.src = walk->src;
  reading.src.swapped = false;  // bytes stay as they lie: the walk swaps them
  int64_t size = item_bytes(walk->src.dtype);
  for (int32_t i = walk->ndim - 1; i >= 0; i--) {
    Axis& axis = walk->axes[i];
    if (axis.from == 0) continue;  // elements that are one in memory stay one
    const int64_t step = size * 8;
    reading.axes[max_ndim - ++reading.ndim] = {axis.extent, step, axis.from};
    axis.from = step;
    if (__builtin_mul_overflow(size, axis.extent, &size) || size > INT64_MAX / 8) return nullptr;
  }
  Memory memory(static_cast<std::byte*>(std::malloc(static_cast<size_t>(size))));
  if (memory == nullptr) return nullptr;
  std::move(reading.axes + max_ndim - reading.ndim, reading.axes + max_ndim, reading.axes);
  reading.dst = {memory.get(), 0, walk->src.dtype, false, true};
  reading.ndim = coalesce(reading.axes, reading.ndim);
  copy_apart(reading);
  walk->src = {memory.get(), 0, walk->src.dtype, walk->src.swapped, true};
  walk->ndim = coalesce(walk->axes, walk->ndim);
  return memory;
}

}  // namespace

CopyStatus copy(const Side& dst, const Side& src, int32_t ndim, const int64_t* shape) noexcept {
  if (!can_cast(src.dtype, dst.dtype)) return CopyStatus::no_cast;
  if (std::find(shape, shape + ndim, 0) != shape + ndim) return CopyStatus::ok;
  Walk walk;
  make_walk(dst, src, ndim, shape, &walk);
  if (!may_overlap(walk)) {
    copy_apart(walk);
    return CopyStatus::ok;
  }
  if (is_no_op(walk)) return CopyStatus::ok;
  if (is_shift(walk)) {
    copy_shift(walk);
    return CopyStatus::ok;
  }
  const Memory memory = read_whole(&walk);
  if (memory == nullptr) return CopyStatus::no_memory;
  copy_apart(walk);
  return CopyStatus::ok;
}

}  // namespace candle
