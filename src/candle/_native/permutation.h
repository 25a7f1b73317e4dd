// Axes of elements exchanged in place, whatever their extents, through a small memory. No Python
// here.
#pragma once

#include "ranks.h"

namespace candle {

/// Memory lent to a copy: for elements, and a bit for each of those places that are kept track of.
struct Workspace {
  std::byte* items;
  int64_t item_bytes;
  uint64_t* marks;
  int64_t mark_count;  // a multiple of 64
};

/// Puts elements, as their ranks count them, from one order of axes into another.
class Permutation {
 public:
  Permutation(const Ranks& items, const Workspace& workspace) noexcept
      : items_(items), workspace_(workspace) {}

  /// One axis, as the elements lie: outermost first.
  struct Lying {
    int64_t extent;
    int32_t place;  // which axis it is to be: 0 for the outermost, each number once
  };
  /// `axes` has `ndim` of them, and is changed on the way.
  void run(int32_t ndim, Lying* axes) const noexcept;

 private:
  int64_t room() const noexcept;
  void turn(int64_t first, int32_t ndim, const Lying* axes, int32_t before) const noexcept;
  void bring_forward(int32_t ndim, Lying* axes, int32_t begin, int32_t middle,
                     int32_t end) const noexcept;
  bool fits(int64_t count) const noexcept { return count <= room(); }
  int64_t passes(int64_t outer, int64_t inner, int64_t width) const noexcept;
  void transpose(int64_t first, int64_t outer, int64_t inner, int64_t width) const noexcept;
  void transpose_wide(int64_t first, int64_t outer, int64_t inner, int64_t width) const noexcept;
  void transpose_tall(int64_t first, int64_t outer, int64_t inner, int64_t width) const noexcept;
  void turn_matrices(int64_t first, int64_t count, int64_t outer, int64_t inner,
                     int64_t width) const noexcept;
  void exchange_blocks(int64_t first, int64_t rows, int64_t columns, int64_t width) const noexcept;

  const Ranks& items_;
  const Workspace workspace_;
};

}  // namespace candle
