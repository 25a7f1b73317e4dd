#include "copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "cast.h"
#include "cast_kernels.h"
#include "caster.h"
#include "dtype_table.h"
#include "layout.h"
#include "packed.h"

namespace candle {

namespace {

/// One axis both sides walk together; strides in bits.
struct Axis {
  int64_t extent;
  int64_t to;
  int64_t from;
};

/// A side without its strides. `start` is the bit where the element (0, 0, ...) of the walk begins.
struct Place {
  std::byte* data;
  int64_t start;
  DLDataType dtype;
  bool swapped;
  bool padded;

  int bits() const { return item_bits(dtype, padded); }
  bool packed() const { return bits() < 8; }
};

/// The least axes that reach the same pairs of elements; the last one is the innermost.
struct Walk {
  Place dst;
  Place src;
  int32_t ndim = 0;
  Axis axes[max_ndim];
};

int64_t magnitude(int64_t stride) noexcept { return stride < 0 ? -stride : stride; }

/// Whether `outer` is to be walked outside `inner`.
bool is_outer(const Axis& outer, const Axis& inner) noexcept {
  if (outer.to != inner.to) return outer.to > inner.to;
  return magnitude(outer.from) > magnitude(inner.from);
}

void coalesce(Walk* walk) noexcept {
  int32_t kept = 0;
  for (int32_t i = 0; i < walk->ndim; i++) {
    const Axis axis = walk->axes[i];
    if (kept > 0) {
      Axis& outer = walk->axes[kept - 1];
      if (outer.to == axis.extent * axis.to && outer.from == axis.extent * axis.from) {
        outer = {outer.extent * axis.extent, axis.to, axis.from};
        continue;
      }
    }
    walk->axes[kept++] = axis;
  }
  walk->ndim = kept;
}

/// Drops axes of extent 1, walks the destination upwards, sorts by its strides, and coalesces. No
/// extent is 0.
Walk make_walk(const Side& dst, const Side& src, int32_t ndim, const int64_t* shape) noexcept {
  Walk walk;
  walk.dst = {dst.data, 0, dst.dtype, false, dst.padded};
  walk.src = {src.data, 0, src.dtype, src.swapped, src.padded};
  for (int32_t i = 0; i < ndim; i++) {
    if (shape[i] == 1) continue;
    Axis axis{shape[i], dst.strides[i], src.strides[i]};
    if (axis.to < 0 || (axis.to == 0 && axis.from < 0)) {
      walk.dst.start += (axis.extent - 1) * axis.to;
      walk.src.start += (axis.extent - 1) * axis.from;
      axis.to = -axis.to;
      axis.from = -axis.from;
    }
    int32_t at = walk.ndim++;
    for (; at > 0 && is_outer(axis, walk.axes[at - 1]); at--) walk.axes[at] = walk.axes[at - 1];
    walk.axes[at] = axis;
  }
  coalesce(&walk);
  return walk;
}

/// Addresses of the first byte touched and of the one after the last.
struct Range {
  int64_t begin;
  int64_t end;
};

Range range_of(const Walk& walk, const Place& place, int64_t Axis::* stride) noexcept {
  int64_t low = place.start;
  int64_t high = place.start + place.bits() - 1;
  for (int32_t i = 0; i < walk.ndim; i++) {
    const int64_t reach = (walk.axes[i].extent - 1) * walk.axes[i].*stride;
    (reach < 0 ? low : high) += reach;
  }
  const auto address = static_cast<int64_t>(reinterpret_cast<intptr_t>(place.data));
  return {address + (low >> 3), address + (high >> 3) + 1};
}

bool overlaps(const Walk& walk) noexcept {
  const Range dst = range_of(walk, walk.dst, &Axis::to);
  const Range src = range_of(walk, walk.src, &Axis::from);
  return dst.begin < src.end && src.begin < dst.end;
}

/// Whether every element would be copied onto itself, unchanged.
bool is_no_op(const Walk& walk) noexcept {
  const Place& dst = walk.dst;
  const Place& src = walk.src;
  if (dst.data != src.data || dst.start != src.start || !same_dtype(dst.dtype, src.dtype) ||
      dst.padded != src.padded || src.swapped) {
    return false;
  }
  return std::all_of(walk.axes, walk.axes + walk.ndim,
                     [](const Axis& axis) { return axis.to == axis.from; });
}

/// Calls `run(to, from, axis)` for each innermost run: the bits where it begins on either side, and
/// its axis.
template <class Run>
void for_each_run(const Walk& walk, Run run) noexcept {
  int64_t to = walk.dst.start;
  int64_t from = walk.src.start;
  if (walk.ndim == 0) return run(to, from, Axis{1, 0, 0});
  const int32_t outer = walk.ndim - 1;
  int64_t index[max_ndim] = {};
  for (;;) {
    run(to, from, walk.axes[outer]);
    int32_t i = outer - 1;
    for (; i >= 0; i--) {
      const Axis& axis = walk.axes[i];
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

template <size_t size>
void copy_sized(std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step,
                int64_t count) noexcept {
  for (int64_t i = 0; i < count; i++, to += to_step, from += from_step) {
    std::byte item[size];
    std::memcpy(item, from, size);
    std::memcpy(to, item, size);
  }
}

/// Copies `count` items of 1, 2, 4, 8 or 16 bytes; steps in bytes.
void copy_items(std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step,
                int64_t count, int size) noexcept {
  if (to_step == size && from_step == size) {
    std::memcpy(to, from, static_cast<size_t>(count * size));
    return;
  }
  switch (size) {
    case 1:
      return copy_sized<1>(to, to_step, from, from_step, count);
    case 2:
      return copy_sized<2>(to, to_step, from, from_step, count);
    case 4:
      return copy_sized<4>(to, to_step, from, from_step, count);
    case 8:
      return copy_sized<8>(to, to_step, from, from_step, count);
    default:
      return copy_sized<16>(to, to_step, from, from_step, count);
  }
}

/// Copies a run of bits between places of the same phase within their bytes.
void copy_bits(std::byte* to, int64_t to_bit, const std::byte* from, int64_t from_bit,
               int64_t count) noexcept {
  const auto partial = [&](int64_t bits) {
    const int width = static_cast<int>(bits);
    if (width > 0) write_bits(to, to_bit, width, read_bits(from, from_bit, width));
    to_bit += bits;
    from_bit += bits;
    count -= bits;
  };
  partial(std::min(-to_bit & 7, count));
  std::memcpy(to + (to_bit >> 3), from + (from_bit >> 3), static_cast<size_t>(count >> 3));
  to_bit += count & ~int64_t{7};
  from_bit += count & ~int64_t{7};
  count &= 7;
  partial(count);
}

/// Copies runs by way of small buffers: items are unpacked, put into native byte order, cast, and
/// packed; steps that have nothing to do are left out.
class Pipeline {
 public:
  Pipeline(const Place& dst, const Place& src) noexcept : dst_(dst), src_(src) {
    const int component_size = item_bytes(component_of(src.dtype));
    if (!same_dtype(dst.dtype, src.dtype)) {
      caster_.emplace(src.dtype, src.swapped, dst.dtype);
    } else if (src.swapped && component_size > 1) {
      swapped_size_ = component_size;
    }
  }

  void run(int64_t to, int64_t from, const Axis& axis) noexcept {
    const int size = item_bytes(dst_.dtype);
    const bool in_place = !dst_.packed() && axis.to == size * 8;
    for (int64_t left = axis.extent; left > 0;) {
      const int64_t count = std::min(left, chunk);
      const std::byte* items = gather(from, axis.from, count);
      if (caster_) {
        std::byte* result = in_place ? dst_.data + (to >> 3) : cast_items_;
        caster_->run(items, result, count);
        items = result;
      }
      if (!caster_ || !in_place) scatter(items, to, axis.to, count);
      to += count * axis.to;
      from += count * axis.from;
      left -= count;
    }
  }

 private:
  static constexpr int64_t chunk = 256;

  /// The next `count` source items, one after the other; in native byte order if no cast follows.
  const std::byte* gather(int64_t from, int64_t step, int64_t count) noexcept {
    if (src_.packed()) {
      for (int64_t i = 0; i < count; i++) {
        items_[i] = static_cast<std::byte>(read_bits(src_.data, from + i * step, src_.dtype.bits));
      }
      return items_;
    }
    const int size = item_bytes(src_.dtype);
    const std::byte* place = src_.data + (from >> 3);
    if (step == size * 8 && swapped_size_ == 0) return place;
    copy_items(items_, size, place, step >> 3, count, size);
    if (swapped_size_ > 0) swap_bytes(items_, count * size / swapped_size_, swapped_size_);
    return items_;
  }

  void scatter(const std::byte* items, int64_t to, int64_t step, int64_t count) noexcept {
    if (dst_.packed()) {
      for (int64_t i = 0; i < count; i++) {
        write_bits(dst_.data, to + i * step, dst_.dtype.bits, std::to_integer<uint8_t>(items[i]));
      }
      return;
    }
    const int size = item_bytes(dst_.dtype);
    copy_items(dst_.data + (to >> 3), step >> 3, items, size, count, size);
  }

  const Place dst_;
  const Place src_;
  std::optional<Caster> caster_;
  int swapped_size_ = 0;  // of the components whose bytes are reversed without a cast
  alignas(16) std::byte items_[chunk * 16];
  alignas(16) std::byte cast_items_[chunk * 16];
};

/// Copies between places that do not overlap.
void copy_apart(const Walk& walk) noexcept {
  const Place& dst = walk.dst;
  const Place& src = walk.src;
  const bool as_is = same_dtype(dst.dtype, src.dtype) && dst.packed() == src.packed() &&
                     !(src.swapped && item_bytes(component_of(src.dtype)) > 1);
  if (as_is && !dst.packed()) {
    const int size = item_bytes(dst.dtype);
    for_each_run(walk, [&](int64_t to, int64_t from, const Axis& axis) {
      copy_items(dst.data + (to >> 3), axis.to >> 3, src.data + (from >> 3), axis.from >> 3,
                 axis.extent, size);
    });
    return;
  }
  Pipeline pipeline(dst, src);
  for_each_run(walk, [&](int64_t to, int64_t from, const Axis& axis) {
    const int64_t bits = dst.bits();
    if (as_is && axis.to == bits && axis.from == bits && ((to ^ from) & 7) == 0) {
      copy_bits(dst.data, to, src.data, from, axis.extent * bits);
    } else {
      pipeline.run(to, from, axis);
    }
  });
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
  coalesce(&reading);
  copy_apart(reading);
  walk->src = {memory.get(), 0, walk->src.dtype, walk->src.swapped, true};
  coalesce(walk);
  return memory;
}

}  // namespace

CopyStatus copy(const Side& dst, const Side& src, int32_t ndim, const int64_t* shape) noexcept {
  if (!can_cast(src.dtype, dst.dtype)) return CopyStatus::no_cast;
  if (std::find(shape, shape + ndim, 0) != shape + ndim) return CopyStatus::ok;
  Walk walk = make_walk(dst, src, ndim, shape);
  if (!overlaps(walk)) {
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
