// Copies of items of whole bytes between places that do not overlap, box by box: straight, or by
// way of small buffers. No Python here.
#pragma once

#include "walk.h"

namespace candle {

/// Both sides of the walk are of whole bytes.
void copy_boxes(const Walk& walk) noexcept;

}  // namespace candle
