#include "overlap.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "copy_packed.h"
#include "exchange.h"
#include "order.h"
#include "pipeline.h"
#include "rearrangement.h"

namespace candle {

namespace {

constexpr int64_t least_room = 1 << 6;
constexpr int64_t most_room = 1 << 19;
constinit std::atomic<int64_t> room{most_room};  // for elements, beside source and destination

/// Whether every element would be copied onto itself, unchanged.
bool is_no_op(const Walk& walk) noexcept {
  const Place& dst = walk.dst;
  const Place& src = walk.src;
  return dst.data == src.data && dst.start == src.start && is_as_is(walk) &&
         std::all_of(walk.axes, walk.axes + walk.ndim,
                     [](const Axis& axis) { return axis.to == axis.from; });
}

/// Whether the sides are one layout in two places, whose elements do not overlap each other.
bool is_shift(const Walk& walk) noexcept {
  if (!is_as_is(walk) || walk.dst.packed()) return false;
  int64_t reach = walk.dst.bits();
  for (int32_t i = walk.ndim - 1; i >= 0; i--) {
    const Axis& axis = walk.axes[i];
    if (axis.to != axis.from || axis.to < reach) return false;
    reach += (axis.extent - 1) * axis.to;
  }
  return true;
}

/// Copies a shift: towards lower addresses from the lowest element on, else from the highest.
void copy_shift(const Walk& walk) noexcept {
  std::byte* to = walk.dst.data + (walk.dst.start >> 3);
  const std::byte* from = walk.src.data + (walk.src.start >> 3);
  const bool down = to < from;
  auto item = static_cast<size_t>(walk.dst.bits() >> 3);
  int32_t ndim = walk.ndim;
  if (ndim > 0 && walk.axes[ndim - 1].to == walk.dst.bits()) {
    item *= static_cast<size_t>(walk.axes[--ndim].extent);
  }
  int64_t steps[max_ndim], index[max_ndim];
  for (int32_t i = 0; i < ndim; i++) {
    steps[i] = walk.axes[i].to / 8;
    index[i] = 0;
    if (down) continue;
    to += (walk.axes[i].extent - 1) * steps[i];
    from += (walk.axes[i].extent - 1) * steps[i];
    steps[i] = -steps[i];
  }
  for (;;) {
    std::memmove(to, from, item);
    int32_t i = ndim - 1;
    for (; i >= 0; i--) {
      to += steps[i];
      from += steps[i];
      if (++index[i] < walk.axes[i].extent) break;
      to -= walk.axes[i].extent * steps[i];
      from -= walk.axes[i].extent * steps[i];
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

struct Free {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, Free>;

Memory allocate(int64_t size) noexcept {
  return Memory(static_cast<std::byte*>(std::malloc(static_cast<size_t>(size))));
}

bool copy_by_way_of_memory(const Walk& walk, int64_t size) noexcept {
  const Memory memory = size < 0 ? nullptr : allocate(size);
  if (memory == nullptr) return false;
  copy_apart(read_whole(walk, memory.get()));
  return true;
}

/// Takes half as much again as there is room for elements.
bool rearrange(const Walk& walk, int64_t size) noexcept {
  Rearrangement rearrangement;
  if (!rearrangement.plan(walk)) return copy_by_way_of_memory(walk, size);
  const int64_t items = room.load(std::memory_order_relaxed);
  const Memory memory = allocate(items + items / 2);
  if (memory == nullptr) return false;
  auto* const marks = reinterpret_cast<uint64_t*>(memory.get() + items);
  rearrangement.run({memory.get(), items, marks, items / 2 * 8});
  return true;
}

}  // namespace

void copy_apart(const Walk& walk) noexcept {
  if (walk.dst.packed() || walk.src.packed()) {
    copy_packed(walk);
  } else {
    copy_boxes(walk);
  }
}

bool copy_in_order(const Walk& walk) noexcept {
  if (is_no_op(walk)) return true;
  if (is_shift(walk)) {
    copy_shift(walk);
    return true;
  }
  const bool packed = walk.dst.packed() || walk.src.packed();
  Walk ordered;
  const int64_t bits = std::max(walk.dst.bits(), walk.src.bits());
  const int64_t fit = room.load(std::memory_order_relaxed) * 8 / bits;
  const int64_t at_a_time = packed ? 1 : std::min(items_at_a_time(walk), fit);
  const Order order = find_order(walk, at_a_time, &ordered);
  if (order == Order::none) return false;
  packed ? copy_packed(ordered) : copy_in_pieces(ordered, order == Order::free);
  return true;
}

bool copy_overlapping(const Walk& walk) noexcept {
  if (copy_in_order(walk)) return true;
  const bool packed = walk.dst.packed() || walk.src.packed();
  Exchange exchange;
  if (!packed && exchange.plan(walk)) {
    const Memory memory = allocate(exchange.block_bytes());
    if (memory == nullptr) return false;
    exchange.run(memory.get());
    return true;
  }
  const int64_t size = source_bytes(walk);
  const bool small = size >= 0 && size <= room.load(std::memory_order_relaxed);
  return small ? copy_by_way_of_memory(walk, size) : rearrange(walk, size);
}

void set_overlap_room(int64_t bytes) noexcept {
  room.store(std::clamp(bytes / 16 * 16, least_room, most_room), std::memory_order_relaxed);
}

}  // namespace candle
