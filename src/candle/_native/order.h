// In which order the elements of a copy can go whose source it overwrites. No Python here.
#pragma once

#include "walk.h"

namespace candle {

/// Whether the elements of the destination, as they follow in the walk, do not overlap each other.
bool is_distinct(const Walk& walk) noexcept;

enum class Order : uint8_t {
  none,
  kept,  // one piece after the other
  free,  // pieces in any order, and at once
};

/// Finds an order of the axes, and a direction of each, in which every source element is read
/// before it is overwritten; none if there is none among those that are tried. Pieces of up to
/// `at_a_time` elements are read before any of them is written: as many of the innermost axes of
/// the order as make no more than that, and whatever part of the next.
Order find_order(const Walk& walk, int64_t at_a_time, Walk* ordered) noexcept;

}  // namespace candle
