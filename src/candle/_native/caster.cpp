#include "caster.h"

#include <algorithm>
#include <cstring>

#include "dtype_table.h"

namespace candle {

namespace {

constexpr int64_t chunk = 256;        // elements that pass through the buffers at a time
constexpr int64_t largest_item = 16;  // bytes of an element, and of the carriers it becomes

/// Puts a zero, the imaginary part, after each of `count` carriers. From the end, as they stay in
/// their buffer.
void spread(std::byte* carriers, int64_t count, size_t size) noexcept {
  for (auto i = static_cast<size_t>(count); i-- > 0;) {
    std::byte carrier[sizeof(double)];
    std::memcpy(carrier, carriers + i * size, size);
    std::memset(carriers + (2 * i + 1) * size, 0, size);
    std::memcpy(carriers + 2 * i * size, carrier, size);
  }
}

}  // namespace

Caster::Caster(DLDataType from, bool swapped, DLDataType to) noexcept
    : from_(from),
      to_(to),
      swaps_(swapped && component_of(from).bits > 8),
      decoder_(decoder_of(component_of(from))),
      encoder_(encoder_of(decoder_.carrier, component_of(to))) {}

void Caster::run(const std::byte* from, std::byte* to, int64_t count) const noexcept {
  for (int64_t done = 0; done < count; done += chunk) {
    run_chunk(from + done * item_bytes(from_), to + done * item_bytes(to_),
              std::min(chunk, count - done));
  }
}

void Caster::run_chunk(const std::byte* from, std::byte* to, int64_t count) const noexcept {
  alignas(16) std::byte items[chunk * largest_item];
  alignas(16) std::byte carriers[chunk * largest_item];
  const bool from_complex = from_.code == kDLComplex;
  const bool to_complex = to_.code == kDLComplex;
  const int64_t components = from_complex ? 2 * count : count;
  if (swaps_) {
    const int size = item_bytes(component_of(from_));
    std::memcpy(items, from, static_cast<size_t>(components * size));
    swap_bytes(items, components, size);
    from = items;
  }
  if (decoder_.run != nullptr) {
    decoder_.run(from, carriers, components, decoder_.format);
    from = carriers;
  }
  if (to_complex && !from_complex) {
    const auto size = static_cast<size_t>(carrier_bytes(decoder_.carrier));
    if (from != carriers) std::memcpy(carriers, from, static_cast<size_t>(count) * size);
    spread(carriers, count, size);
    encoder_.run(carriers, to, 2 * count, encoder_.format);
  } else if (from_complex && !to_complex) {  // to bool, all else is refused
    std::byte* parts = from == carriers ? items : carriers;
    encoder_.run(from, parts, components, encoder_.format);
    for (int64_t i = 0; i < count; i++) to[i] = parts[2 * i] | parts[2 * i + 1];
  } else {
    encoder_.run(from, to, components, encoder_.format);
  }
}

}  // namespace candle
