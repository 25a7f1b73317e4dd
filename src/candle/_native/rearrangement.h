// Copies onto their own source whose elements go neither in some order nor in simple rings. No
// Python here.
#pragma once

#include "permutation.h"

namespace candle {

/// First all elements move into the destination as they follow each other in memory, which always
/// goes in some order; those that overlapping windows share are spread there; they change places;
/// last they are repeated, if the source is.
class Rearrangement {
 public:
  /// False where elements of a side lie between each other, but for windows along a line.
  bool plan(const Walk& walk) noexcept;

  /// `workspace` has room for a few elements, at least.
  void run(const Workspace& workspace) noexcept;

 private:
  struct Span {
    int64_t begin, end;
  };

  bool plan_windows() noexcept;
  Span span(const Ranks& ranks, int64_t first) const noexcept;
  bool waits(int64_t first) const noexcept;
  void move_stretch(int64_t first) const noexcept;
  void move_all() noexcept;
  void spread_windows() const noexcept;
  void sort_axes(int32_t* order) const noexcept;
  Walk within() const noexcept;
  bool copy(Walk walk) const noexcept;
  bool exchange() const noexcept;
  void permute() const noexcept;
  void turn_axes() const noexcept;
  void turn_blocks(int64_t first, int64_t count, int64_t width) const noexcept;
  void repeat() const noexcept;

  Walk whole_;
  Walk once_;  // without the axes along which the source is repeated
  Ranks to_, from_;
  bool windows_ = false;            // elements of the source are several of the destination's
  int64_t window_steps_[max_ndim];  // in elements; axes as `sort_axes` has them
  int64_t stretch_ = 1;             // elements that are read at a time
  Workspace workspace_;
};

}  // namespace candle
