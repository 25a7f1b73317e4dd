// One chunk of an Arrow column as a tensor sees it: validated, with offsets and slices worked in.
// No Python here.
#pragma once

#include "arrow_schema.h"

namespace candle {

/// The nulls of one node, which has a slot for each index of the first `axes` axes. Its slots lie
/// `step` times closer than the elements.
struct Nulls {
  const uint8_t* bits;  // a slot is null where its bit is 0
  int64_t first;
  int64_t step;
  int32_t axes;
};

/// Where the elements lie, in a layout of the axes that the column's type says. The arrays are
/// somebody else's.
struct Piece {
  const std::byte* data = nullptr;  // the first element; of bits: the byte that `bit` counts from
  int64_t bit = 0;                  // of bits: where the first one is
  int64_t size = 0;                 // elements
  int64_t null_slots = 0;
  int32_t ndim = 0;
  int32_t nullable = 0;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;  // in elements
  Nulls* nulls = nullptr;      // those nodes that have some here
};

/// A piece with room for whatever it may become.
class RoomyPiece : public Piece {
 public:
  RoomyPiece() {
    shape = extents_;
    strides = steps_;
    nulls = places_;
  }
  RoomyPiece(const RoomyPiece&) = delete;
  RoomyPiece& operator=(const RoomyPiece&) = delete;

 private:
  int64_t extents_[max_ndim];
  int64_t steps_[max_ndim];
  Nulls places_[max_ndim + 2];
};

/// Lays out the rows `begin` to `begin + count` of a column. False with an objection.
///
/// Checked: everything that can be without knowing how long a buffer is. Variable lists have to be
/// of one length and to lie at equal distances. Memory that the host cannot read may have neither
/// variable lists nor nulls, which only reading tells.
bool lay_out(const ColumnType& type, const ArrowArray& array, int64_t begin, int64_t count,
             bool readable, Piece* piece, Objection* objection) noexcept;

/// The layout of a column with no rows at all; variable lists have no items then.
void lay_out_nothing(const ColumnType& type, Piece* piece) noexcept;

/// Checks the struct array that a table is. False with an objection.
bool check_table(const ArrowArray& table, int64_t columns, Objection* objection) noexcept;

/// Adds the nulls of a table's rows to those of a column, which has been laid out. False with an
/// objection.
bool add_row_nulls(const ArrowArray& table, bool readable, Piece* piece,
                   Objection* objection) noexcept;

}  // namespace candle
