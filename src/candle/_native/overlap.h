// Copies whose destination may be part of their source. No Python here.
#pragma once

#include "walk.h"

namespace candle {

/// Copies between places that do not overlap.
void copy_apart(const Walk& walk) noexcept;

/// Copies as if the source were read first, if the sides are one, or one moved by some bytes, or
/// there is an order of the elements in which each of them is read before it is written; else
/// false.
bool copy_in_order(const Walk& walk) noexcept;

/// Copies as if the source were read whole first; false where there is no memory for what is
/// needed, and nothing has been written.
///
/// What goes in no order: where source and destination are the same places with their axes
/// exchanged or turned round, blocks change places; what is small is read whole; all else is
/// rearranged. That takes at most 768 KB. Only where the elements of one side lie between each
/// other, in an order that no axes have, is more than that read whole.
bool copy_overlapping(const Walk& walk) noexcept;

/// Takes less memory for elements than half a megabyte, and reads no more of them at a time; for
/// tests, so that small copies go as large ones do.
void set_overlap_room(int64_t bytes) noexcept;

}  // namespace candle
