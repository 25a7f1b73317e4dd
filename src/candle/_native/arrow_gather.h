// Chunks and columns of Arrow elements, put together in one tensor; their nulls, as a mask or
// filled.
#pragma once

#include "arrow_arrival.h"
#include "cast.h"

namespace candle {

/// The chunks `from` to `to` of an arrival, as one tensor sees them.
class Gathering final : public Assembly {
 public:
  Gathering(Arrival* arrival, int64_t from, int64_t to) noexcept
      : arrival_(*arrival), from_(from), to_(to) {}

  /// Works out the shape. False with an error set where the parts do not make one tensor.
  bool measure() noexcept;

  /// The only part with elements, if the tensor can be that: its chunk, else -1.
  int64_t only_chunk() const noexcept;
  const Piece& piece_of(int64_t chunk) const noexcept { return arrival_.piece(chunk, 0); }

  /// The tensor as a move's source. Of the only chunk it has the memory.
  Source source(Parts* parts) noexcept;

  /// A mask of the result's shape: true where an element is null. Empty with an error set.
  Ref mask() const noexcept;

  /// Checks that the fill value is one of a dtype. False with a ValueError set.
  bool take_fill(DTypeId dtype) noexcept;

  bool write(Tensor* dst) const noexcept override;

 private:
  struct Place;
  template <typename Act>
  bool each_part(const Tensor* dst, Act act) const noexcept;
  bool write_part(const Tensor* dst, const Place& place, const Piece& piece,
                  const ColumnType& type) const noexcept;
  void fill_part(const Tensor* dst, const Place& place, const Piece& piece) const noexcept;
  bool disagree(int64_t chunk, int64_t column, const Piece& first) const noexcept;

  Arrival& arrival_;
  int64_t from_, to_;
  int64_t filled_chunks_ = 0;  // those with rows
  int64_t some_chunk_ = -1;    // one of them
  int64_t nulls_ = 0;
  bool bits_ = false;
  Scalar fill_;
  int32_t ndim_ = 0;
  int64_t size_ = 0;
  int64_t shape_[max_ndim];
  int64_t strides_[max_ndim];
};

}  // namespace candle
