#include "caster.h"

#include <algorithm>
#include <cstring>

#include "dtype_table.h"

namespace candle {

namespace {

constexpr int64_t chunk = 256;        // elements that pass through the buffers at a time
constexpr int64_t largest_item = 16;  // bytes of an element, and of the carriers it becomes

constexpr DLDataType float32 = {kDLFloat, 32, 1};

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
      swaps_(swapped),
      decoder_(decoder_of(component_of(from))),
      encoder_(encoder_of(decoder_.carrier, component_of(to))) {
  if (!plan_steps(from, to)) step_count_ = 0;
}

bool Caster::add_step(DLDataType from, DLDataType to) noexcept {
  const DirectCast cast = direct_cast(from, to);
  steps_[step_count_++] = {cast, item_bytes(from), item_bytes(to)};
  return cast.run != nullptr;
}

bool Caster::plan_steps(DLDataType from, DLDataType to) noexcept {
  const bool from_complex = from.code == kDLComplex;
  const DLDataType component = component_of(to);
  if (from_complex && to.code == kDLComplex) return add_step(component_of(from), component);
  if (to.code == kDLComplex) {
    return (same_dtype(from, component) || add_step(from, component)) && add_step(component, to);
  }
  if (add_step(from, to)) return true;
  // By way of float32 go only small floats, which it holds, and integers to small floats, which
  // have no numbers near those that it rounds.
  step_count_ = 0;
  const bool is_exact = !from_complex && from.code != kDLFloat && from.code != kDLBool;
  return is_exact && to.code != kDLBool && add_step(from, float32) && add_step(float32, to);
}

void Caster::Step::run(const std::byte* from, std::byte* to, int64_t count) const noexcept {
  const int64_t blocks = count / cast_block;
  const int64_t rest = count % cast_block;
  if (blocks > 0) cast.run(from, to, blocks, cast.constant);
  if (rest == 0) return;
  alignas(32) std::byte block[cast_block * largest_item] = {};
  alignas(32) std::byte result[cast_block * largest_item];
  std::memcpy(block, from + (count - rest) * from_bytes, static_cast<size_t>(rest * from_bytes));
  cast.run(block, result, 1, cast.constant);
  std::memcpy(to + (count - rest) * to_bytes, result, static_cast<size_t>(rest * to_bytes));
}

void Caster::run(const std::byte* from, std::byte* to, int64_t count) const noexcept {
  const bool is_pair = from_.code == kDLComplex && to_.code == kDLComplex;
  if (step_count_ == 1 && !swaps_) return steps_[0].run(from, to, is_pair ? 2 * count : count);
  for (int64_t done = 0; done < count; done += chunk) {
    const std::byte* source = from + done * item_bytes(from_);
    std::byte* target = to + done * item_bytes(to_);
    const int64_t left = std::min(chunk, count - done);
    step_count_ > 0 ? run_steps(source, target, left) : run_general(source, target, left);
  }
}

void Caster::run_steps(const std::byte* from, std::byte* to, int64_t count) const noexcept {
  alignas(32) std::byte items[chunk * largest_item];
  alignas(32) std::byte between[chunk * largest_item];
  const bool from_complex = from_.code == kDLComplex;
  if (swaps_) {
    const int64_t components = from_complex ? 2 * count : count;
    const int size = item_bytes(component_of(from_));
    std::memcpy(items, from, static_cast<size_t>(components * size));
    swap_bytes(items, components, size);
    from = items;
  }
  if (from_complex && to_.code == kDLComplex) count *= 2;
  if (step_count_ == 1) return steps_[0].run(from, to, count);
  steps_[0].run(from, between, count);
  steps_[1].run(between, to, count);
}

void Caster::run_general(const std::byte* from, std::byte* to, int64_t count) const noexcept {
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
