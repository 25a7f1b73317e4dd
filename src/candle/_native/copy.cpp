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
  const Memory memory = read_whole(&walk);
  if (memory == nullptr) return CopyStatus::no_memory;
  copy_apart(walk);
  return CopyStatus::ok;
}

}  // namespace candle
