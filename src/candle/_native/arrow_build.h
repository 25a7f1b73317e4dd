// Arrow's structs as candle hands them out. Each array and each schema, children included, has
// memory of its own and a release of its own, so that a consumer may move a child out.
#pragma once

#include "arrow_schema.h"
#include "storage.h"

namespace candle {

/// The type a tensor is handed out as: rows, in lists of fixed size.
struct ExportType {
  DTypeId dtype = unknown_dtype;
  bool bits = false;    // booleans as bits; else by arrow.bool8
  bool tensor = false;  // one list a row, which has the axes below
  int32_t depth = 0;    // lists
  int64_t widths[max_ndim];
  // Of a tensor: its axes as they lie, and which of them each axis is.
  int32_t axes = 0;
  int64_t extents[max_ndim];
  int32_t permutation[max_ndim];
};

/// Whether Arrow has a type, be it opaque, for elements of a dtype.
DTypeSet arrow_dtypes() noexcept;

/// False where there is no memory.
bool build_schema(const ExportType& type, ArrowSchema* schema) noexcept;

/// The same type as another schema's, which has been parsed. False where there is no memory.
bool copy_schema(const ArrowSchema& from, ArrowSchema* schema) noexcept;

/// What marks the end of work on an array of device memory; none by default.
struct ExportEvent {
  void* event = nullptr;  // destroyed with the array
  int32_t device = 0;
};

/// Rows over memory that `owner` holds. Released on any thread, with or without the GIL. False
/// where there is no memory; the event is then the caller's still.
bool build_array(const ExportType& type, int64_t rows, const void* data, Owner&& owner,
                 ExportEvent event, ArrowArray* array, void** sync_event) noexcept;

}  // namespace candle
