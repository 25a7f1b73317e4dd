// What an Arrow producer gave: its chunks, taken over one by one and laid out.
#pragma once

#include "arrow_pieces.h"
#include "device_memory.h"
#include "grown.h"
#include "ingest.h"

namespace candle {

/// What a caller of `from_arrow` asked for beside the rest; asarray asks for nothing of it.
struct ArrowOptions {
  enum class NullsAs : uint8_t { error, mask, fill };
  NullsAs nulls = NullsAs::error;
  PyObject* fill = nullptr;    // the number; borrowed
  bool times = false;          // as their integers
  bool list = false;           // a tensor of each chunk
  PyObject* column = nullptr;  // of a table: a name or a number; borrowed
};

struct Arrival {
  explicit Arrival(const Ingest& of, const ArrowOptions& wanted) : ingest(of), options(wanted) {}

  /// Reads the type. False with an error set.
  bool take_schema(const ArrowSchema& schema) noexcept;
  /// Moves a chunk's array here, once it has been laid out. False with an error set, and the array
  /// left alone.
  bool take_chunk(ArrowArray* array) noexcept;
  /// The same of a chunk that says where it is.
  bool take_device_chunk(ArrowDeviceArray* array) noexcept;

  bool table() const { return table_ && options.column == nullptr; }
  int64_t columns() const { return types.size(); }
  const Piece& piece(int64_t chunk, int64_t column) const {
    return pieces[chunk * columns() + column];
  }
  bool refuse(const Objection& objection) const noexcept;

  const Ingest& ingest;
  const ArrowOptions& options;
  Route route = Route::arrow_array;
  DLDevice device = {kDLCPU, 0};
  Pending pending;          // where work on the last chunk is queued
  Grown<ColumnType> types;  // of each column; of one where it is no table
  Grown<Owner> chunks;
  Pieces pieces;
  Grown<int64_t> lengths;  // rows of each chunk

 private:
  bool choose_column(const ArrowSchema& schema) noexcept;
  bool lay_out_chunk(const ArrowArray& array, Objection* objection) noexcept;

  bool table_ = false;
  int64_t children_ = 0;  // of a table
  int64_t chosen_ = -1;   // the column that was asked for
};

/// Asks an object for its Arrow data, by the first of the protocol's methods that it has. `applies`
/// is false where it has none. False with an error set: an ImportError, and `applies` false, where
/// the method lacks the package that would do it.
bool ask_arrow(PyObject* x, Arrival* arrival, bool* applies) noexcept;

/// Takes what capsules hold: a schema's and an array's (of either kind), or a stream's (of either
/// kind) alone. False with an error set.
bool take_arrays(PyObject* schema, PyObject* array, Arrival* arrival) noexcept;
bool take_stream(PyObject* stream, Arrival* arrival) noexcept;

}  // namespace candle
