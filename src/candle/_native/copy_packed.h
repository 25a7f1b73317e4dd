// Copies where a side packs its elements below a byte. No Python here.
#pragma once

#include "walk.h"

namespace candle {

/// The sides do not overlap, or each element is read before it is overwritten if they go one after
/// the other in the order of the walk, forwards along each axis.
void copy_packed(const Walk& walk) noexcept;

}  // namespace candle
