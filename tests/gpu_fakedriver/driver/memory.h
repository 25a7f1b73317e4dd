// Memory of the fake devices. What the host gets of it is an address that nothing is mapped at;
// streams work on the bytes behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "abi.h"

namespace fake {

enum class Kind : int { pinned = 1, device = 2, managed = 3, registered = 4 };

/// One allocation. Queued work holds it, so that its bytes outlive the address.
struct Block {
  Address base = 0;
  size_t size = 0;
  Kind kind = Kind::device;
  int device = 0;
  uint64_t id = 0;
  bool in_pool = false;                // freed in stream order, and not handed out again yet
  std::unique_ptr<std::byte[]> owned;  // none for registered memory
  std::byte* bytes = nullptr;
};

/// A place in a block, or in memory that no fake device knows.
struct Place {
  std::shared_ptr<Block> block;
  std::byte* bytes = nullptr;
  bool pageable() const { return block == nullptr; }
};

/// What is allocated now, and was at the most. `bytes` and `live` do not count what lies in a pool.
struct Usage {
  size_t live = 0;
  size_t bytes = 0;
  size_t peak = 0;
};

class Memory {
 public:
  /// Bytes of 0xCD; null when there is no room. `registered` memory is the caller's, at `host`.
  std::shared_ptr<Block> allocate(size_t size, Kind kind, int device, void* host = nullptr);
  /// The block that holds this address, one that lies in a pool included.
  std::shared_ptr<Block> find(Address address) const;
  /// `size` bytes at an address: of a block in use, or of the host where no block is near. Nothing
  /// for bytes beyond the end of a block, freed ones, or ones that only a device could have.
  std::optional<Place> place(Address address, size_t size) const;
  void release(const std::shared_ptr<Block>& block);
  void to_pool(Block& block);
  void from_pool(Block& block);
  const Usage& usage() const { return usage_; }

 private:
  bool reserve();
  void count(const Block& block);
  void discount(const Block& block);

  std::map<Address, std::shared_ptr<Block>> blocks_;  // by base
  Address arena_ = 0;
  Address next_ = 0;
  uint64_t last_id_ = 0;
  Usage usage_;
};

}  // namespace fake
