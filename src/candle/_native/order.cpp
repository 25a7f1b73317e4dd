#include "order.h"

#include <algorithm>

namespace candle {

namespace {

constexpr int32_t most_turned = 6;  // axes of which every choice of directions is tried

/// The bits from the first one of the destination's element (0, 0, ...) to that of the source's.
int64_t distance_of(const Walk& walk) noexcept {
  const auto bytes =
      reinterpret_cast<intptr_t>(walk.src.data) - reinterpret_cast<intptr_t>(walk.dst.data);
  return static_cast<int64_t>(bytes) * 8 + walk.src.start - walk.dst.start;
}

/// Whether no element, once written, is read by one that comes later in the walk: of each axis, by
/// one that comes later along that axis, and is anywhere along those inside of it. The first
/// `checked` axes count.
bool reads_first(const Walk& walk, int32_t checked) noexcept {
  for (int32_t a = 0; a < checked; a++) {
    int64_t least = distance_of(walk);  // from what is written to what is read later
    int64_t most = least;
    for (int32_t i = 0; i < walk.ndim; i++) {
      const Axis& axis = walk.axes[i];
      const int64_t to = (axis.extent - 1) * axis.to;
      const int64_t from = (axis.extent - 1) * axis.from;
      if (i < a) {
        least += std::min<int64_t>(0, from - to);
        most += std::max<int64_t>(0, from - to);
      } else if (i > a) {
        least += std::min<int64_t>(0, from) - std::max<int64_t>(0, to);
        most += std::max<int64_t>(0, from) - std::min<int64_t>(0, to);
      } else {  // written at the first and read at the next or the last, or at the last but one
        const int64_t corners[] = {axis.from, from, from - to + axis.to};
        least += *std::min_element(corners, corners + 3);
        most += *std::max_element(corners, corners + 3);
      }
    }
    if (least < walk.dst.bits() && most > -walk.src.bits()) return false;
  }
  return true;
}

/// Goes along an axis the other way.
void turn(Walk* walk, int32_t index) noexcept {
  Axis& axis = walk->axes[index];
  walk->dst.start += (axis.extent - 1) * axis.to;
  walk->src.start += (axis.extent - 1) * axis.from;
  axis.to = -axis.to;
  axis.from = -axis.from;
}

/// How many of the outer axes there are around those of which all is read at a time.
int32_t axes_around(const Walk& walk, int64_t at_a_time) noexcept {
  int32_t around = walk.ndim;
  for (int64_t room = at_a_time; around > 0 && walk.axes[around - 1].extent <= room; around--) {
    room /= walk.axes[around - 1].extent;
  }
  return around;
}

/// Tries the directions of the axes of one order.
Order find_directions(const Walk& walk, int64_t at_a_time, Walk* ordered) noexcept {
  const int32_t around = axes_around(walk, at_a_time);
  const int32_t turned = std::min(around, most_turned);
  for (uint32_t choice = 0; choice < 1U << turned; choice++) {
    *ordered = walk;
    for (int32_t i = 0; i < around; i++) {
      if ((choice >> std::min(i, turned - 1) & 1) != 0) turn(ordered, i);
    }
    if (!reads_first(*ordered, around)) continue;
    Walk opposite = *ordered;
    for (int32_t i = 0; i < around; i++) turn(&opposite, i);
    return reads_first(opposite, around) ? Order::free : Order::kept;
  }
  return Order::none;
}

}  // namespace

bool is_distinct(const Walk& walk) noexcept {
  int64_t reach = walk.dst.bits();
  for (int32_t i = walk.ndim - 1; i >= 0; i--) {
    const Axis& axis = walk.axes[i];
    if (axis.to < reach) return false;
    reach += (axis.extent - 1) * axis.to;
  }
  return true;
}

Order find_order(const Walk& walk, int64_t at_a_time, Walk* ordered) noexcept {
  if (!is_distinct(walk)) return Order::none;
  const Order found = find_directions(walk, at_a_time, ordered);
  if (found != Order::none) return found;
  Walk sorted = walk;
  std::stable_sort(sorted.axes, sorted.axes + sorted.ndim, [](const Axis& a, const Axis& b) {
    return magnitude(a.from) > magnitude(b.from);
  });
  return find_directions(sorted, at_a_time, ordered);
}

}  // namespace candle
