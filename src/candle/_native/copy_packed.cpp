#include "copy_packed.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "caster.h"
#include "packed.h"

namespace candle {

namespace {

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

/// Copies `count` items of some bytes; steps in bytes.
void copy_items(std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step,
                int64_t count, int size) noexcept {
  if (to_step == size && from_step == size) {
    std::memcpy(to, from, static_cast<size_t>(count * size));
    return;
  }
  for (int64_t i = 0; i < count; i++, to += to_step, from += from_step) {
    std::memcpy(to, from, static_cast<size_t>(size));
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
  std::memmove(to + (to_bit >> 3), from + (from_bit >> 3), static_cast<size_t>(count >> 3));
  to_bit += count & ~int64_t{7};
  from_bit += count & ~int64_t{7};
  count &= 7;
  partial(count);
}

/// Copies runs by way of small buffers: items are unpacked, cast, and packed; steps that have
/// nothing to do are left out. Without a cast there is no byte order: packed elements are less than
/// a byte.
class ElementPipeline {
 public:
  ElementPipeline(const Place& dst, const Place& src) noexcept : dst_(dst), src_(src) {
    if (!same_dtype(dst.dtype, src.dtype)) caster_.emplace(src.dtype, src.swapped, dst.dtype);
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

  /// The next `count` source items, one after the other.
  const std::byte* gather(int64_t from, int64_t step, int64_t count) noexcept {
    if (src_.packed()) {
      for (int64_t i = 0; i < count; i++) {
        items_[i] = static_cast<std::byte>(read_bits(src_.data, from + i * step, src_.dtype.bits));
      }
      return items_;
    }
    const int size = item_bytes(src_.dtype);
    const std::byte* place = src_.data + (from >> 3);
    if (step == size * 8) return place;
    copy_items(items_, size, place, step >> 3, count, size);
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
  alignas(16) std::byte items_[chunk * 16];
  alignas(16) std::byte cast_items_[chunk * 16];
};

}  // namespace

void copy_packed(const Walk& walk) noexcept {
  const Place& dst = walk.dst;
  const Place& src = walk.src;
  const bool as_is = is_as_is(walk);
  ElementPipeline pipeline(dst, src);
  for_each_run(walk, [&](int64_t to, int64_t from, const Axis& axis) {
    const int64_t bits = dst.bits();
    if (as_is && axis.to == bits && axis.from == bits && ((to ^ from) & 7) == 0) {
      copy_bits(dst.data, to, src.data, from, axis.extent * bits);
    } else {
      pipeline.run(to, from, axis);
    }
  });
}

}  // namespace candle
