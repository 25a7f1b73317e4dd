// Casts of runs of elements, in two steps: decoded to a carrier type that holds every value of the
// source exactly, then encoded from it with the one rounding. A kernel per dtype and step serves
// every pair of dtypes. No Python here.
#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>

#include "float_formats.h"

namespace candle {

/// The native types that casts pass through.
enum class Carrier : uint8_t { int32, int64, uint64, float32, float64 };

constexpr int carrier_bytes(Carrier carrier) {
  return carrier == Carrier::int32 || carrier == Carrier::float32 ? 4 : 8;
}

/// Converts `count` components that lie one after the other, in native byte order, a byte each
/// where they have fewer than 8 bits. The two runs do not overlap; neither need be aligned.
using Kernel = void (*)(const std::byte* from, std::byte* to, int64_t count,
                        const SmallFloat* format) noexcept;

struct Decoder {
  Kernel run;  // nullptr: the components are carriers already
  const SmallFloat* format;
  Carrier carrier;
};

struct Encoder {
  Kernel run;
  const SmallFloat* format;
};

/// What a complex number has two of; every other dtype is its own component.
constexpr DLDataType component_of(DLDataType dtype) {
  if (dtype.code != kDLComplex) return dtype;
  return {kDLFloat, static_cast<uint8_t>(dtype.bits / 2), 1};
}

/// The dtype is a row of dtype_table, neither complex nor a pair.
Decoder decoder_of(DLDataType component) noexcept;
Encoder encoder_of(Carrier carrier, DLDataType component) noexcept;

/// Reverses the bytes of each of `count` components of 2, 4 or 8 bytes.
void swap_bytes(std::byte* data, int64_t count, int component_size) noexcept;

}  // namespace candle
