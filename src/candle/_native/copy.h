// The copy engine: any strided layout to any other, any dtype to any other. No Python here.
#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>

namespace candle {

/// One side of a copy: where its elements lie. Both sides have the same shape; a broadcast axis of
/// the source has stride 0, an axis of the destination only where its extent is 1.
struct Side {
  std::byte* data;   // where the element (0, 0, ...) begins; the source is never written
  DLDataType dtype;  // a row of dtype_table
  bool swapped;      // each component's bytes, two at least, lie in the foreign order (source only)
  bool padded;  // sub-byte elements take a byte each; else they are packed, the lowest bits first
  const int64_t* strides;  // in bits, one an axis; any sign
};

enum class CopyStatus : uint8_t { ok, no_cast, no_memory };

/// Copies every element of `src` to `dst`, cast by the rules of cast.h; equal dtypes keep their
/// bits, NaN payloads included. Source and destination may overlap: the result is as if the source
/// had been read whole first. `shape` has `ndim` extents. Memory need not be aligned to the item.
/// Needs no GIL.
CopyStatus copy(const Side& dst, const Side& src, int32_t ndim, const int64_t* shape) noexcept;

}  // namespace candle
