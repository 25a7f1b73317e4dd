#include "rearrangement.h"

#include <algorithm>
#include <numeric>

#include "exchange.h"
#include "order.h"
#include "overlap.h"

namespace candle {

namespace {

void turn_in_memory(std::byte* items, int64_t count, int64_t bytes) noexcept {
  for (int64_t low = 0, high = count - 1; low < high; low++, high--) {
    std::swap_ranges(items + low * bytes, items + (low + 1) * bytes, items + high * bytes);
  }
}

}  // namespace

bool Rearrangement::plan(const Walk& walk) noexcept {
  whole_ = once_ = walk;
  once_.ndim = 0;
  for (int32_t i = 0; i < walk.ndim; i++) {
    if (walk.axes[i].from != 0) once_.axes[once_.ndim++] = walk.axes[i];
  }
  if (!is_distinct(walk) || !to_.plan(walk.dst, once_, &Axis::to)) return false;
  windows_ = !from_.plan(walk.src, once_, &Axis::from);
  return !windows_ || plan_windows();
}

/// Axes of windows that share elements: those are the elements of one line, and no more of them
/// than there are before them in the order of the axes.
bool Rearrangement::plan_windows() noexcept {
  Walk line = once_;
  line.axes[0] = {1, 0, 0};
  line.ndim = 1;
  for (int32_t i = 0; i < once_.ndim; i++) {
    const auto [extent, to, from] = once_.axes[i];
    line.axes[0].from = std::gcd(line.axes[0].from, from);
    line.axes[0].extent += (extent - 1) * magnitude(from);
    if (from < 0) line.src.start += (extent - 1) * from;
  }
  Axis& axis = line.axes[0];
  axis.extent = (axis.extent - 1) / axis.from + 1;
  int32_t order[max_ndim];
  sort_axes(order);
  int64_t inside = 1;
  for (int32_t i = once_.ndim - 1; i >= 0; i--) {
    window_steps_[i] = magnitude(once_.axes[order[i]].from) / axis.from;
    if (window_steps_[i] > inside) return false;
    inside *= once_.axes[order[i]].extent;
  }
  return from_.plan(line.src, line, &Axis::from);
}

void Rearrangement::run(const Workspace& workspace) noexcept {
  workspace_ = workspace;
  if (!is_as_is(once_) || !(to_ == from_)) move_all();
  if (windows_) spread_windows();
  if (!exchange()) {
    permute();
    turn_axes();
  }
  repeat();
}

/// The bits that a stretch takes, counted from the destination's data.
Rearrangement::Span Rearrangement::span(const Ranks& ranks, int64_t first) const noexcept {
  const bool source = &ranks == &from_;
  const Place& place = source ? once_.src : once_.dst;
  const int64_t last = std::min(first + stretch_, from_.count()) - 1;
  const int64_t distance = (place.data - once_.dst.data) * 8;
  return {distance + ranks.bit_of(first), distance + ranks.bit_of(last) + place.bits()};
}

/// Whether a stretch may overwrite the next one's source. If not, it may be what the next one
/// overwrites.
bool Rearrangement::waits(int64_t first) const noexcept {
  const int64_t next = first + stretch_;
  return next < from_.count() && span(to_, first).end > span(from_, next).begin;
}

void Rearrangement::move_stretch(int64_t first) const noexcept {
  const int64_t count = std::min(stretch_, from_.count() - first);
  std::byte* const items = workspace_.items;
  from_.read(first, count, items);
  if (is_as_is(once_)) return to_.write(first, count, items);
  Walk walk;
  walk.src = from_.in_memory(items);
  walk.dst =
      to_.contiguous() ? to_.at(first) : to_.in_memory(items + stretch_ * from_.item_bytes());
  walk.axes[walk.ndim++] = {count, to_.item_bytes() * 8, from_.item_bytes() * 8};
  copy_apart(walk);
  if (!to_.contiguous()) to_.write(first, count, walk.dst.data);
}

/// Each element goes to where the destination has as many below it. Of two stretches one at most
/// overwrites the other, whichever side they overlap on: those that wait go after the next one.
void Rearrangement::move_all() noexcept {
  stretch_ = workspace_.item_bytes / (from_.item_bytes() + to_.item_bytes());
  for (int64_t first = 0; first < from_.count();) {
    int64_t last = first;
    while (waits(last)) last += stretch_;
    const int64_t next = last + stretch_;
    for (; last >= first; last -= stretch_) move_stretch(last);
    first = next;
  }
}

/// From the end on, as no element of a window lies behind its place.
void Rearrangement::spread_windows() const noexcept {
  const int64_t most = workspace_.item_bytes / to_.item_bytes();
  int32_t order[max_ndim];
  sort_axes(order);
  const int32_t inner = once_.ndim - 1;
  const int64_t window = once_.axes[order[inner]].extent;
  for (int64_t end = to_.count(); end > 0;) {
    const int64_t begin = std::max<int64_t>(0, end - most);
    std::byte* items = workspace_.items;
    for (int64_t place = begin; place < end;) {
      int64_t element = place % window;
      const int64_t count = std::min(window - element, end - place);
      int64_t rest = place / window;
      for (int32_t i = inner - 1; i >= 0; i--) {
        element += rest % once_.axes[order[i]].extent * window_steps_[i];
        rest /= once_.axes[order[i]].extent;
      }
      to_.read(element, count, items);
      items += count * to_.item_bytes();
      place += count;
    }
    to_.write(begin, end - begin, workspace_.items);
    end = begin;
  }
}

/// The axes in the order in which the source has them, outermost first.
void Rearrangement::sort_axes(int32_t* order) const noexcept {
  for (int32_t i = 0; i < once_.ndim; i++) order[i] = i;
  std::stable_sort(order, order + once_.ndim, [&](int32_t a, int32_t b) {
    return magnitude(once_.axes[a].from) > magnitude(once_.axes[b].from);
  });
}

/// A copy within the destination, from the same places.
Walk Rearrangement::within() const noexcept {
  Walk walk = once_;
  walk.src = {once_.dst.data, once_.dst.start, once_.dst.dtype, false, once_.dst.padded};
  for (int32_t i = 0; i < walk.ndim; i++) walk.axes[i].from = walk.axes[i].to;
  return walk;
}

bool Rearrangement::copy(Walk walk) const noexcept {
  walk.ndim = coalesce(walk.axes, walk.ndim);
  if (copy_in_order(walk)) return true;
  Exchange exchange;
  if (walk.dst.packed() || !exchange.plan(walk)) return false;
  if (exchange.block_bytes() > workspace_.item_bytes) return false;
  exchange.run(workspace_.items);
  return true;
}

/// What is left is a copy within the destination. Without Permutation, if the axes as the elements
/// lie now have steps there.
bool Rearrangement::exchange() const noexcept {
  int32_t order[max_ndim];
  int64_t extents[max_ndim], steps[max_ndim];
  sort_axes(order);
  for (int32_t i = 0; i < once_.ndim; i++) extents[i] = once_.axes[order[i]].extent;
  if (!to_.steps_of(once_.ndim, extents, steps)) return false;
  Walk walk = within();
  for (int32_t i = 0; i < walk.ndim; i++) {
    const bool backwards = once_.axes[order[i]].from < 0;
    walk.axes[order[i]].from = backwards ? -steps[i] : steps[i];
    if (backwards) walk.src.start += (extents[i] - 1) * steps[i];
  }
  return copy(walk);
}

void Rearrangement::permute() const noexcept {
  int32_t order[max_ndim];
  Permutation::Lying axes[max_ndim];
  sort_axes(order);
  for (int32_t i = 0; i < once_.ndim; i++) axes[i] = {once_.axes[order[i]].extent, order[i]};
  Permutation(to_, workspace_).run(once_.ndim, axes);
}

/// Turns round the axes along which the source goes backwards.
void Rearrangement::turn_axes() const noexcept {
  Walk walk = within();
  for (int32_t i = 0; i < walk.ndim; i++) {
    Axis& axis = walk.axes[i];
    if (once_.axes[i].from > 0) continue;
    axis.from = -axis.to;
    walk.src.start += (axis.extent - 1) * axis.to;
  }
  if (copy(walk)) return;
  int64_t width = 1;
  for (int32_t i = walk.ndim - 1; i >= 0; i--) {
    const int64_t extent = walk.axes[i].extent;
    if (walk.axes[i].from < 0) {
      for (int64_t first = 0; first < to_.count(); first += extent * width) {
        turn_blocks(first, extent, width);
      }
    }
    width *= extent;
  }
}

/// Turns round the order of blocks: those at the beginning change places with those at the end.
void Rearrangement::turn_blocks(int64_t first, int64_t count, int64_t width) const noexcept {
  const int64_t most = workspace_.item_bytes / 2 / to_.item_bytes();
  const int64_t length = std::min(width, most);
  std::byte* const low = workspace_.items;
  std::byte* const high = low + most * to_.item_bytes();
  for (int64_t begin = 0, end = count; end - begin > 1;) {
    const int64_t blocks = std::clamp<int64_t>(most / width, 1, (end - begin) / 2);
    for (int64_t part = 0; part < width; part += length) {  // the whole, unless blocks are large
      const int64_t items = blocks > 1 ? blocks * width : std::min(length, width - part);
      const int64_t lower = first + begin * width + part;
      const int64_t upper = first + (end - blocks) * width + part;
      to_.read(lower, items, low);
      to_.read(upper, items, high);
      turn_in_memory(low, blocks, items / blocks * to_.item_bytes());
      turn_in_memory(high, blocks, items / blocks * to_.item_bytes());
      to_.write(lower, items, high);
      to_.write(upper, items, low);
    }
    begin += blocks;
    end -= blocks;
  }
}

void Rearrangement::repeat() const noexcept {
  for (int32_t axis = whole_.ndim - 1; axis >= 0; axis--) {
    if (whole_.axes[axis].from != 0) continue;
    Walk walk = within();
    walk.ndim = 0;
    for (int32_t i = 0; i < whole_.ndim; i++) {
      const auto [extent, to, from] = whole_.axes[i];
      if (i != axis && (from != 0 || i > axis)) walk.axes[walk.ndim++] = {extent, to, to};
      if (i == axis && extent > 2) walk.axes[walk.ndim++] = {extent - 1, to, 0};
    }
    walk.dst.start += whole_.axes[axis].to;
    walk.ndim = coalesce(walk.axes, walk.ndim);
    copy_apart(walk);
  }
}

}  // namespace candle
