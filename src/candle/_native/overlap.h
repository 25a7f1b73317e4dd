// Copies whose destination may be part of their source. No Python here.
#pragma once

#include "walk.h"

namespace candle {

/// Copies between places that do not overlap.
void copy_apart(const Walk& walk) noexcept;

/// Copies as if the source were read whole first; false where there is no memory for that, and
/// nothing has been written.
///
/// Where some order of the elements reads each of them before it is written, they go in that order
/// through a small buffer; where source and destination are the same places with their axes
/// exchanged or turned round, blocks change places. That takes at most half a megabyte. All else
/// takes as much as the source.
bool copy_overlapping(const Walk& walk) noexcept;

}  // namespace candle
