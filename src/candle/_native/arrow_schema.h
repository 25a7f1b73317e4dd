// What the type of an Arrow column says, as far as tensors go: the elements, and the levels of
// lists above them. No Python here.
#pragma once

#include "arrow_abi.h"
#include "dtype_table.h"
#include "layout.h"

namespace candle {

/// Why a column cannot be taken. `code` is a reason's name in candle.plan; without one the structs
/// themselves are impossible.
struct Objection {
  const char* code = nullptr;
  char text[240] = {};

  /// False, always.
  [[gnu::format(printf, 3, 4)]] bool say(const char* reason, const char* format, ...) noexcept;
};

/// How a node of a column holds the items of its rows.
enum class Level : uint8_t {
  fixed,       // as many each
  tensor,      // the same, and they have axes
  list,        // from offset to offset, of 32 bits
  large_list,  // of 64 bits
  view,        // offset and size, of 32 bits
  large_view,
};

struct ColumnType {
  struct Node {
    Level level;
    int64_t width;       // of fixed and tensor
    int32_t first_axis;  // of tensor: where its axes begin in `extents`
    int32_t axes;
  };

  DTypeId dtype = unknown_dtype;
  bool temporal = false;   // the integers are times
  bool bits = false;       // booleans, eight to a byte
  bool pairs = false;      // complex numbers: the data lies in a child, two numbers each
  int64_t bytes_each = 0;  // of binary of one width: so many uint8, a last axis; else 0
  int32_t depth = 0;       // nodes above the elements
  int32_t ndim = 1;        // of the tensor that a column becomes
  int32_t tensor_axes = 0;
  Node nodes[max_ndim];       // from the outside in
  int64_t extents[max_ndim];  // of tensor nodes: their axes as they are meant, and the strides
  int64_t strides[max_ndim];
};

/// Reads the type of one column. Dates, times and durations are taken as their integers where
/// `times`. False with an objection.
bool parse_column(const ArrowSchema& schema, bool times, ColumnType* type,
                  Objection* objection) noexcept;

/// Whether a schema is that of a table: its columns are children of one struct. False with an
/// objection where it is impossible. No table has more columns than `most_columns`: what claims to
/// is not believed.
inline constexpr int64_t most_columns = 1 << 20;
bool parse_root(const ArrowSchema& schema, bool* table, Objection* objection) noexcept;

/// The format of elements of a dtype as a primitive type; nullptr where Arrow has none.
const char* arrow_format(DTypeId dtype) noexcept;

}  // namespace candle
