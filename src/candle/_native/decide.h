// The one decision on every move: share, copy or refuse, and why. No Python here.
//
// A Source says what memory is like, a Demand what a consumer takes. Ingest, export and `explain`
// all act on the Decision.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dtype_table.h"
#include "layout.h"

namespace candle {

/// The protocol a move takes.
enum class Route : uint8_t {
  candle,
  exchange,
  numpy,
  dlpack_versioned,
  dlpack_legacy,
  array_struct,
  cuda_array_interface,
  array_interface,
  buffer,
  arrow_array,
  arrow_stream,
  array,
  sequence,
  scalar,
};
inline constexpr const char* route_names[] = {
    "candle",
    "exchange",
    "numpy",
    "dlpack_versioned",
    "dlpack_legacy",
    "array_struct",
    "cuda_array_interface",
    "array_interface",
    "buffer",
    "arrow_array",
    "arrow_stream",
    "array",
    "sequence",
    "scalar",
};

enum class Action : uint8_t { share, copy, refuse };
inline constexpr const char* action_names[] = {"share", "copy", "refuse"};

enum class CopyMode : uint8_t { if_needed, never, always };

/// Why a move cannot share. The first group is put right by a copy, the second is not.
enum class Reason : uint8_t {
  requested,
  dtype,
  order,
  byte_order,
  misaligned,
  odd_stride,
  negative_stride,
  read_only,
  not_dense,
  alignment,
  conj_bit,
  neg_bit,
  packed,
  no_export,
  device,
  python_values,
  bitmap,
  permuted,
  chunks,
  columns,
  filled,
  consumer_copies,
  producer_copies,
  // From here on a copy does not help.
  dtype_unknown,
  would_narrow,
  foreign_device,
  requires_grad,
  no_cast,
  pairs,
  no_axes,
  long_rows,
  axes,
  count,
};
inline constexpr const char* reason_names[] = {
    "requested",    "dtype",           "order",           "byte_order",
    "misaligned",   "odd_stride",      "negative_stride", "read_only",
    "not_dense",    "alignment",       "conj_bit",        "neg_bit",
    "packed",       "no_export",       "device",          "python_values",
    "bitmap",       "permuted",        "chunks",          "columns",
    "filled",       "consumer_copies", "producer_copies", "dtype_unknown",
    "would_narrow", "foreign_device",  "requires_grad",   "no_cast",
    "pairs",        "no_axes",         "long_rows",       "axes",
};
static_assert(sizeof(reason_names) / sizeof(reason_names[0]) == static_cast<size_t>(Reason::count));

using ReasonSet = uint32_t;

constexpr ReasonSet bit(Reason reason) { return ReasonSet{1} << static_cast<int>(reason); }

/// Reasons that no copy puts right.
inline constexpr ReasonSet fatal_reasons = ~(bit(Reason::dtype_unknown) - 1);

/// Reasons that say the memory holds other values than the tensor has: a copy of it has to change
/// signs.
inline constexpr ReasonSet sign_reasons = bit(Reason::conj_bit) | bit(Reason::neg_bit);

/// Reasons that say the memory is a copy, made for the move by the producer or its framework.
inline constexpr ReasonSet fresh_reasons = bit(Reason::no_export) | bit(Reason::producer_copies);

/// Reasons that say the elements are not one block of memory: the copy is put together of parts.
inline constexpr ReasonSet parts_reasons =
    bit(Reason::bitmap) | bit(Reason::chunks) | bit(Reason::columns) | bit(Reason::filled);

/// What there is of each, for those reasons.
struct Parts {
  int64_t chunks = 0;
  int64_t columns = 0;
  int64_t nulls = 0;
};

/// Memory as a producer describes it. The arrays stay the producer's.
struct Source {
  std::byte* data = nullptr;
  int64_t size = 0;  // elements
  const int64_t* shape = nullptr;
  const int64_t* strides = nullptr;  // in units of `unit` bits
  int32_t unit = 0;                  // the item's own bits, or 8 where a protocol counts bytes
  int32_t ndim = 0;
  DLDevice device = {kDLCPU, 0};
  DTypeId dtype = unknown_dtype;
  Route route = Route::candle;
  bool read_only = false;
  bool swapped = false;  // never where the item is a byte
  bool padded = false;
  bool fresh = false;     // memory that was made for this move, and is nobody's else
  ReasonSet reasons = 0;  // those the route itself found: conj_bit, neg_bit, no_export,
                          // producer_copies, python_values, requires_grad, and those of parts
  const Parts* parts = nullptr;
  const char* copied = nullptr;  // how producer_copies is known
};

/// What a consumer takes.
struct Demand {
  const char* consumer = "candle";
  Route route = Route::candle;      // out: the protocol it gets a tensor by
  DTypeSet dtypes = ~DTypeSet{0};   // those it can express
  DTypeSet narrows = 0;             // those it would silently make smaller
  DTypeId cast_to = unknown_dtype;  // asked for by the caller
  uint32_t alignment = 1;           // bytes the first element's address has to be a multiple of
  bool c_order = false;             // row-major without gaps, asked for by the caller
  bool dense = false;               // no gaps and no overlap
  bool negative_strides = true;
  bool read_only = true;    // it knows read-only memory, or never writes
  bool rows = false;        // the first axis is the outermost; gaps and overlap are nowhere
  bool bitmap = false;      // it takes booleans as bits, eight to a byte
  bool packed = true;       // it takes sub-byte elements packed
  bool padded = true;       // it takes them a byte each
  bool host_only = true;    // it reads the memory on the host
  bool particular = false;  // one of the next three says something
  bool copies = false;      // it makes a copy of its own, whatever it is given
  int16_t least_axes = 0;
  int16_t most_axes = max_ndim;
  bool somewhere = false;  // `device` was asked for by the caller
  DLDevice device = {kDLCPU, 0};
  uintptr_t stream =
      0;  // where copies on a device are queued; 0: on the current one of who makes it
};

struct Decision {
  Route route = Route::candle;
  Action action = Action::share;
  ReasonSet reasons = 0;
  int64_t nbytes = 0;  // to be copied
};

/// Decides one move. Moves nothing.
Decision decide(const Source& source, const Demand& demand, CopyMode mode) noexcept;

namespace detail {

/// What a move has to know of a dtype, worked out once.
struct Item {
  int32_t bits;
  uintptr_t misalignment;  // bits of an address that have to be 0: its size's, a complex number's
                           // component's
  int64_t between;         // bits of a byte stride that have to be 0
};

struct ItemTable {
  Item of[dtype_count];
};

constexpr ItemTable make_item_table() {
  ItemTable table{};
  for (int i = 0; i < dtype_count; i++) {
    const DTypeRow& row = dtype_table[i];
    const int bytes = item_bytes(row.dlpack);
    table.of[i] = {row.dlpack.bits * row.dlpack.lanes,
                   static_cast<uintptr_t>(row.kind == Kind::complex_number ? bytes / 2 : bytes) - 1,
                   bytes - 1};
  }
  return table;
}

inline constexpr ItemTable items = make_item_table();

}  // namespace detail

/// Whether `decide` shares a source with a consumer that takes everything and asks for nothing.
/// False means: ask `decide`. This is the common case of every ingest, told by a few comparisons.
inline bool plainly_shares(const Source& source) noexcept {
  const detail::Item& item = detail::items.of[source.dtype];
  int64_t between = 0;
  if (source.unit != item.bits) {
    for (int32_t i = 0; i < source.ndim; i++) between |= source.strides[i];
  }
  return (between & item.between) == 0 && source.reasons == 0 && !source.swapped &&
         source.device.device_type == kDLCPU &&
         (reinterpret_cast<uintptr_t>(source.data) & item.misalignment) == 0;
}

/// The same of a consumer with a Demand, which is the common case of every export.
inline bool plainly_shares(const Source& source, const Demand& demand) noexcept {
  int64_t signs = 0;
  for (int32_t i = 0; i < source.ndim; i++) signs |= source.strides[i];
  return plainly_shares(source) && (demand.dtypes & ~demand.narrows) >> source.dtype & 1 &&
         detail::items.of[source.dtype].bits >= 8 && demand.cast_to == unknown_dtype &&
         !demand.somewhere && demand.alignment == 1 && !demand.c_order && !demand.dense &&
         !demand.rows && !demand.particular && (demand.read_only || !source.read_only) &&
         (demand.negative_strides || signs >= 0);
}

/// Whether the caller asked by name for the copy that a decision makes.
inline bool asked_for(const Decision& decision, const Demand& demand) noexcept {
  constexpr ReasonSet by_name = bit(Reason::requested) | bit(Reason::dtype) |
                                bit(Reason::python_values) | bit(Reason::filled);
  const ReasonSet named = demand.somewhere ? by_name | bit(Reason::device) : by_name;
  return (decision.reasons & named) != 0;
}

/// The measured fact behind a reason, in words.
struct Fact {
  char text[240];
};
Fact describe(Reason reason, const Source& source, const Demand& demand) noexcept;

inline bool same_device(DLDevice a, DLDevice b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}

inline bool host_memory(DLDevice device) {
  return device.device_type == kDLCPU || device.device_type == kDLCUDAHost ||
         device.device_type == kDLROCMHost;
}

/// Where the copy that a move makes comes to lie.
inline DLDevice copied_to(const Source& source, const Demand& demand) {
  if (demand.somewhere) return demand.device;
  if (demand.host_only || host_memory(source.device)) return {kDLCPU, 0};
  return source.device;
}

/// Bytes `size` elements take: packed where the dtype is smaller than a byte. -1 on overflow.
int64_t bytes_of(int64_t size, DTypeId dtype, bool padded) noexcept;

}  // namespace candle
