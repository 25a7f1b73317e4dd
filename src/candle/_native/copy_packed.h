// Copies where a side packs its elements below a byte. No Python here.
#pragma once

#include "walk.h"

namespace candle {

/// The sides do not overlap.
void copy_packed(const Walk& walk) noexcept;

}  // namespace candle
