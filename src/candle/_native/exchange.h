// Copies onto the very places that are read, with axes exchanged or turned round. No Python here.
#pragma once

#include "walk.h"

namespace candle {

/// How many bytes the source takes that `read_whole` reads; -1 if they cannot be counted.
int64_t source_bytes(const Walk& walk) noexcept;

/// Reads the source into the memory, and gives the walk that is left to do.
Walk read_whole(const Walk& walk, std::byte* memory) noexcept;

/// Blocks that change places: each takes the elements of another one, in a ring.
class Exchange {
 public:
  /// False if the walk is no such copy, or its blocks would be large, or those of many axes.
  bool plan(const Walk& walk) noexcept;

  /// How much memory `run` needs.
  int64_t block_bytes() const noexcept { return block_bytes_; }
  void run(std::byte* memory) const noexcept;

 private:
  struct Stretch {
    int64_t begin, extent;
  };

  bool split(int32_t index, int64_t inner) noexcept;
  bool match_axes() noexcept;
  bool pair_axes() noexcept;
  bool choose_blocks() noexcept;
  int64_t blocks_along(int32_t axis) const noexcept;
  Stretch block(int32_t axis, int64_t index) const noexcept;
  void next(const int64_t* index, int64_t* source) const noexcept;
  Walk part(const int64_t* index) const noexcept;
  void run_ring(const int64_t* first, std::byte* memory) const noexcept;

  Walk walk_;
  int32_t axis_of_[max_ndim];  // along which axis of the destination the source goes along each
  bool turned_[max_ndim];      // backwards
  int64_t side_[max_ndim];     // extents of the blocks, but for the middle ones
  int64_t block_bytes_ = 0;
};

}  // namespace candle
