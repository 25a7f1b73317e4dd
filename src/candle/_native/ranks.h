// The elements of one side of a copy, counted in the order of their addresses. No Python here.
#pragma once

#include "walk.h"

namespace candle {

/// Elements that do not overlap each other, each axis of them around all of the next. What is read
/// of them takes whole bytes: elements below a byte take one each.
class Ranks {
 public:
  /// Of axes on all of which that side steps. False if some lie between each other.
  bool plan(const Place& place, const Walk& walk, int64_t Axis::* step) noexcept;

  int64_t count() const noexcept { return count_; }
  int64_t item_bytes() const noexcept { return item_; }
  /// Whether one follows the other without a gap, in whole bytes.
  bool contiguous() const noexcept { return contiguous_; }
  /// As the bytes of a buffer have it that holds what was read.
  Place in_memory(std::byte* items) const noexcept;
  /// Where a stretch of contiguous elements lies.
  Place at(int64_t first) const noexcept;

  /// The first bit of an element, from the beginning of the place's data.
  int64_t bit_of(int64_t rank) const noexcept;
  /// Asks for an element's line ahead of use.
  void fetch(int64_t rank) const noexcept;
  void read(int64_t first, int64_t count, std::byte* items) const noexcept;
  void write(int64_t first, int64_t count, const std::byte* items) const noexcept;
  /// As if all were read first.
  void move(int64_t to, int64_t from, int64_t count) const noexcept;

  /// The steps of these elements seen in other extents, of as many elements in all; false if there
  /// are none.
  bool steps_of(int32_t ndim, const int64_t* extents, int64_t* steps) const noexcept;

  bool operator==(const Ranks& other) const noexcept;

 private:
  struct Run {  // along the innermost axis
    int64_t bit, count;
  };

  Run run_from(int64_t rank) const noexcept;
  template <class Visit>
  void for_each_run(int64_t first, int64_t count, Visit visit) const noexcept;
  void move_apart(int64_t to, int64_t from, int64_t count) const noexcept;

  Place place_;
  int64_t item_;
  int64_t count_;
  bool contiguous_;
  int32_t ndim_;
  int64_t extents_[max_ndim];
  int64_t steps_[max_ndim];  // in bits, upwards
};

}  // namespace candle
