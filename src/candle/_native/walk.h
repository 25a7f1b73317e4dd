// The plan of a copy: the axes that both sides walk together, as few as there can be. No Python
// here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "copy.h"
#include "dtype_table.h"
#include "layout.h"

namespace candle {

/// One axis both sides walk together; strides in bits.
struct Axis {
  int64_t extent;
  int64_t to;
  int64_t from;
};

/// A side without its strides. `start` is the bit where the element (0, 0, ...) of the walk begins.
struct Place {
  std::byte* data;
  int64_t start;
  DLDataType dtype;
  bool swapped;
  bool padded;

  int bits() const { return item_bits(dtype, padded); }
  bool packed() const { return bits() < 8; }
};

/// The least axes that reach the same pairs of elements; the last one is the innermost.
struct Walk {
  Place dst;
  Place src;
  int32_t ndim = 0;
  Axis axes[max_ndim];
};

/// Drops axes of extent 1, walks the destination upwards, sorts by its strides, and coalesces. No
/// extent is 0.
void make_walk(const Side& dst, const Side& src, int32_t ndim, const int64_t* shape,
               Walk* walk) noexcept;

/// Joins neighbours that are one axis on both sides, whatever the unit of the strides; returns how
/// many are left.
int32_t coalesce(Axis* axes, int32_t ndim) noexcept;

inline int64_t magnitude(int64_t stride) noexcept { return stride < 0 ? -stride : stride; }

/// Whether a byte of the destination may be one of the source: false is certain.
bool may_overlap(const Walk& walk) noexcept;

/// Whether the elements keep their bits and how they are stored: the copy moves bytes only.
bool is_as_is(const Walk& walk) noexcept;

}  // namespace candle
