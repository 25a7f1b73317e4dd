// Copies of items of whole bytes, box by box: straight, or by way of small buffers. No Python here.
#pragma once

#include "walk.h"

namespace candle {

/// Both sides of the walk are of whole bytes, and do not overlap.
void copy_boxes(const Walk& walk) noexcept;

/// Copies in pieces of up to `items_at_a_time` elements that follow in the walk, all of as many
/// inner axes as that holds: each is read before any of it is written. The axes may be in any order
/// and step either way. `any_order`: else the pieces go in the order of the walk.
void copy_in_pieces(const Walk& walk, bool any_order) noexcept;
int64_t items_at_a_time(const Walk& walk) noexcept;

}  // namespace candle
