#include "exchange.h"

#include <algorithm>

#include "order.h"
#include "overlap.h"

namespace candle {

namespace {

constexpr int64_t most_block_bytes = 1 << 19;
constexpr int64_t block_room = 1 << 16;  // bytes, but for blocks in the middle
constexpr int32_t most_moved = 4;        // axes; blocks of more have short rows

}  // namespace

int64_t source_bytes(const Walk& walk) noexcept {
  int64_t size = walk.src.packed() ? 1 : walk.src.bits() / 8;
  for (int32_t i = 0; i < walk.ndim; i++) {
    const Axis& axis = walk.axes[i];
    if (axis.from == 0) continue;  // elements that are one in memory stay one
    if (__builtin_mul_overflow(size, axis.extent, &size) || size > INT64_MAX / 8) return -1;
  }
  return size;
}

Walk read_whole(const Walk& walk, std::byte* memory) noexcept {
  Walk left = walk;
  Walk reading;
  reading.src = walk.src;
  reading.src.swapped = false;  // bytes stay as they lie: the walk that is left swaps them
  reading.dst = {memory, 0, walk.src.dtype, false, true};
  int64_t step = reading.dst.bits();
  for (int32_t i = walk.ndim - 1; i >= 0; i--) {
    Axis& axis = left.axes[i];
    if (axis.from == 0) continue;
    reading.axes[max_ndim - ++reading.ndim] = {axis.extent, step, axis.from};
    axis.from = step;
    step *= axis.extent;
  }
  std::move(reading.axes + max_ndim - reading.ndim, reading.axes + max_ndim, reading.axes);
  reading.ndim = coalesce(reading.axes, reading.ndim);
  copy_apart(reading);
  left.src = {memory, 0, walk.src.dtype, walk.src.swapped, true};
  left.ndim = coalesce(left.axes, left.ndim);
  return left;
}

bool Exchange::plan(const Walk& walk) noexcept {
  walk_ = walk;
  return is_distinct(walk) && walk.src.bits() == walk.dst.bits() && pair_axes() && choose_blocks();
}

/// Splits an axis into two, the inner one of that extent.
bool Exchange::split(int32_t index, int64_t inner) noexcept {
  const Axis whole = walk_.axes[index];
  if (whole.extent % inner != 0 || walk_.ndim == max_ndim) return false;
  std::copy_backward(walk_.axes + index, walk_.axes + walk_.ndim, walk_.axes + walk_.ndim + 1);
  walk_.ndim++;
  walk_.axes[index] = {whole.extent / inner, whole.to * inner, whole.from * inner};
  walk_.axes[index + 1].extent = inner;
  return true;
}

/// Splits axes until each of the source goes over the places of one of the destination.
bool Exchange::match_axes() noexcept {
  for (int32_t i = 0; i < walk_.ndim;) {
    const Axis& axis = walk_.axes[i];
    int32_t found = 0;
    while (found < walk_.ndim && walk_.axes[found].to != magnitude(axis.from)) found++;
    if (found == walk_.ndim) return false;
    const int64_t extent = walk_.axes[found].extent;
    if (extent == axis.extent) {
      i++;
      continue;
    }
    if (!(extent < axis.extent ? split(i, extent) : split(found, axis.extent))) return false;
    i = 0;
  }
  return true;
}

/// Finds, for each axis of the source, the axis of the destination that goes over the same places.
bool Exchange::pair_axes() noexcept {
  if (!match_axes()) return false;
  bool taken[max_ndim] = {};
  int64_t first = walk_.dst.start;  // where the source's element (0, 0, ...) would be
  for (int32_t i = 0; i < walk_.ndim; i++) {
    const Axis& axis = walk_.axes[i];
    int32_t found = 0;
    while (walk_.axes[found].to != magnitude(axis.from)) found++;
    if (taken[found]) return false;
    taken[found] = true;
    axis_of_[i] = found;
    turned_[i] = axis.from < 0;
    if (turned_[i]) first -= (axis.extent - 1) * axis.from;
  }
  return walk_.dst.data + (first >> 3) == walk_.src.data + (walk_.src.start >> 3);
}

/// Whole rows of what lies inside of all that is moved; of the axes that are, as much of each;
/// along the others, one.
bool Exchange::choose_blocks() noexcept {
  int64_t room = block_room / (walk_.dst.bits() / 8);
  const auto stays = [&](int32_t i) { return axis_of_[i] == i && !turned_[i]; };
  int32_t moved = 0;
  for (int32_t i = 0; i < walk_.ndim; i++) moved += stays(i) ? 0 : 1;
  if (moved > most_moved) return false;
  std::fill_n(side_, walk_.ndim, 1);
  int32_t inner = walk_.ndim;
  for (; inner > 0 && stays(inner - 1); inner--) {
    side_[inner - 1] = std::min(walk_.axes[inner - 1].extent, room);
    room /= side_[inner - 1];
  }
  for (int64_t side = 2;; side *= 2) {
    int64_t items = 1;
    bool grows = false;
    for (int32_t i = 0; i < inner; i++) {
      if (stays(i)) continue;
      items *= std::min(side, walk_.axes[i].extent);
      grows = grows || walk_.axes[i].extent > side / 2;
    }
    if (!grows || items > room) break;
    for (int32_t i = 0; i < inner; i++) {
      if (!stays(i)) side_[i] = std::min(side, walk_.axes[i].extent);
    }
  }
  block_bytes_ = walk_.dst.bits() / 8;
  for (int32_t i = 0; i < walk_.ndim; i++) {
    block_bytes_ *= std::min(2 * side_[i] - 1, walk_.axes[i].extent);
    if (block_bytes_ > most_block_bytes) return false;
  }
  return true;
}

/// An odd number, or an even one of equal blocks: so the blocks of an axis that is turned round
/// cover each other.
int64_t Exchange::blocks_along(int32_t axis) const noexcept {
  const int64_t extent = walk_.axes[axis].extent;
  const int64_t pairs = extent / (2 * side_[axis]);
  return 2 * pairs + (extent > 2 * pairs * side_[axis] ? 1 : 0);
}

Exchange::Stretch Exchange::block(int32_t axis, int64_t index) const noexcept {
  const int64_t extent = walk_.axes[axis].extent;
  const int64_t side = side_[axis];
  const int64_t pairs = extent / (2 * side);
  const int64_t count = blocks_along(axis);
  if (index < pairs) return {index * side, side};
  if (index >= count - pairs) return {extent - (count - index) * side, side};
  return {pairs * side, extent - 2 * pairs * side};
}

/// The block that lies where a block's elements come from.
void Exchange::next(const int64_t* index, int64_t* source) const noexcept {
  for (int32_t i = 0; i < walk_.ndim; i++) {
    source[axis_of_[i]] = turned_[i] ? blocks_along(i) - 1 - index[i] : index[i];
  }
}

Walk Exchange::part(const int64_t* index) const noexcept {
  Walk part = walk_;
  part.ndim = 0;
  for (int32_t i = 0; i < walk_.ndim; i++) {
    const Axis& axis = walk_.axes[i];
    const Stretch stretch = block(i, index[i]);
    part.dst.start += stretch.begin * axis.to;
    part.src.start += stretch.begin * axis.from;
    if (stretch.extent > 1) part.axes[part.ndim++] = {stretch.extent, axis.to, axis.from};
  }
  part.ndim = coalesce(part.axes, part.ndim);
  return part;
}

/// Does nothing if the ring has a block that comes before `first`.
void Exchange::run_ring(const int64_t* first, std::byte* memory) const noexcept {
  const int32_t ndim = walk_.ndim;
  int64_t index[max_ndim], source[max_ndim], last[max_ndim] = {};
  std::copy_n(first, ndim, index);
  for (;;) {
    next(index, source);
    if (std::equal(source, source + ndim, first)) break;
    if (std::lexicographical_compare(source, source + ndim, first, first + ndim)) return;
    std::copy_n(source, ndim, index);
  }
  std::copy_n(index, ndim, last);  // it takes what the first one has
  const Walk left = read_whole(part(last), memory);
  for (std::copy_n(first, ndim, index); !std::equal(index, index + ndim, last);) {
    copy_apart(part(index));
    next(index, source);
    std::copy_n(source, ndim, index);
  }
  copy_apart(left);
}

void Exchange::run(std::byte* memory) const noexcept {
  int64_t index[max_ndim] = {};
  for (;;) {
    run_ring(index, memory);
    int32_t i = walk_.ndim - 1;
    for (; i >= 0; i--) {
      if (++index[i] < blocks_along(i)) break;
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

}  // namespace candle
