#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace fake {
namespace {

// Addresses are given out once: one that was freed never names other memory.
constexpr size_t arena_size = size_t{1} << 38;
constexpr size_t granule = 512;
constexpr int fresh = 0xCD;

}  // namespace

bool Memory::reserve() {
  if (arena_ != 0) return true;
  void* start =
      mmap(nullptr, arena_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return false;
  arena_ = next_ = as_address(start);
  return true;
}

std::shared_ptr<Block> Memory::allocate(size_t size, Kind kind, int device, void* host) {
  auto block = std::make_shared<Block>();
  block->size = size;
  block->kind = kind;
  block->device = device;
  block->id = ++last_id_;
  if (kind == Kind::registered) {
    block->bytes = static_cast<std::byte*>(host);
    block->base = as_address(host);
  } else {
    block->owned.reset(new (std::nothrow) std::byte[size + granule]);
    if (block->owned == nullptr) return nullptr;
    block->bytes = reinterpret_cast<std::byte*>((as_address(block->owned.get()) + granule - 1) /
                                                granule * granule);
    std::memset(block->bytes, fresh, size);
    block->base = as_address(block->bytes);
  }
  if (kind == Kind::device) {
    const size_t step = (size / granule + 2) * granule;  // a gap behind each
    if (!reserve() || next_ + step > arena_ + arena_size) return nullptr;
    block->base = next_;
    next_ += step;
  }
  if (!blocks_.emplace(block->base, block).second) return nullptr;
  count(*block);
  return block;
}

std::shared_ptr<Block> Memory::find(Address address) const {
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return nullptr;
  const std::shared_ptr<Block>& block = std::prev(after)->second;
  return address - block->base < std::max<size_t>(block->size, 1) ? block : nullptr;
}

std::optional<Place> Memory::place(Address address, size_t size) const {
  std::shared_ptr<Block> block = find(address);
  if (block == nullptr) {
    if (address == 0 || (arena_ != 0 && address - arena_ < arena_size)) return std::nullopt;
    return Place{nullptr, reinterpret_cast<std::byte*>(address)};
  }
  const size_t offset = address - block->base;
  if (block->in_pool || size > block->size - offset) return std::nullopt;
  std::byte* bytes = block->bytes + offset;
  return Place{std::move(block), bytes};
}

void Memory::release(const std::shared_ptr<Block>& block) {
  if (!block->in_pool) discount(*block);
  blocks_.erase(block->base);
}

void Memory::to_pool(Block& block) {
  block.in_pool = true;
  discount(block);
}

void Memory::from_pool(Block& block) {
  block.in_pool = false;
  count(block);
}

void Memory::count(const Block& block) {
  ++usage_.live;
  usage_.bytes += block.size;
  usage_.peak = std::max(usage_.peak, usage_.bytes);
}

void Memory::discount(const Block& block) {
  --usage_.live;
  usage_.bytes -= block.size;
}

}  // namespace fake
