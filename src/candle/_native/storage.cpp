#include "storage.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "device_memory.h"
#include "platform.h"

namespace candle {

Counters live;

namespace {

/// A producer's deleter may run Python.
template <typename Managed>
void run_deleter(Managed* managed, bool have_gil) noexcept {
  if (!have_gil) return managed->deleter(managed);
  const PendingError pending;
  managed->deleter(managed);
}

void release_array(ArrowArray* array, bool have_gil) noexcept {
  if (have_gil) {
    const PendingError pending;
    array->release(array);
  } else {
    array->release(array);
  }
  delete array;
}

/// Blocks of dropped storages, kept for the next ones: as many as a model has tensors. Touched with
/// the GIL only.
class Pool {
 public:
  void* get() {
    if (first_ == nullptr) return std::malloc(sizeof(Storage));
    count_--;
    return std::exchange(first_, first_->next);
  }
  void put(void* block, bool have_gil) {
#ifdef Py_GIL_DISABLED
    have_gil = false;
#endif
    if (have_gil && count_ < capacity) {
      count_++;
      first_ = new (block) Free{first_};
    } else {
      std::free(block);
    }
  }

 private:
  struct Free {
    Free* next;
  };
  static constexpr int capacity = 4096;
  Free* first_ = nullptr;
  int count_ = 0;
};
Pool pool;

/// Fresh memory, in huge pages where it is large: most of the time of a copy into small ones goes
/// to page faults. nullptr: none.
void* allocate_block(size_t bytes, size_t alignment) noexcept {
  constexpr size_t large = 32 << 20;  // smaller blocks malloc mostly has from before, touched
  constexpr size_t huge_page = 2 << 20;
  alignment = std::max(alignment, bytes >= large ? huge_page : sizeof(void*));
  void* block = platform::allocate_aligned(bytes, alignment);
  // Whole ones only: what follows the block stays untouched.
  if (block != nullptr && bytes >= large) {
    platform::prefer_huge_pages(block, bytes & ~(huge_page - 1));
  }
  return block;
}

}  // namespace

Owner Owner::allocate(size_t bytes, size_t alignment, std::byte** data) noexcept {
  void* block = nullptr;
  if (bytes > 0) {
    block = allocate_block(bytes, alignment);
    if (block == nullptr) return {};
  }
  Storage* storage = Storage::make({Kind::block, {.block = block}}, bytes);
  if (storage == nullptr) return {};
  live.bytes.add_with_gil(static_cast<int64_t>(bytes));
  *data = static_cast<std::byte*>(block);
  return {Kind::storage, {.storage = storage}};
}

bool Owner::become_share() noexcept {
  if (kind_ == Kind::storage) return true;
  Storage* storage = Storage::make(std::move(*this));
  if (storage == nullptr) return false;
  kind_ = Kind::storage;
  handle_.storage = storage;
  return true;
}

void Owner::give_back(bool have_gil) noexcept {
  const Kind kind = std::exchange(kind_, Kind::none);
  const Handle handle = handle_;
  if (kind == Kind::storage) return handle.storage->release(have_gil);
  if (have_gil) {
    live.storages.add_with_gil(-1);
  } else {
    live.storages.add(-1);
  }
  switch (kind) {
    case Kind::versioned:
      if (handle.versioned->deleter != nullptr) run_deleter(handle.versioned, have_gil);
      break;
    case Kind::legacy:
      if (handle.legacy->deleter != nullptr) run_deleter(handle.legacy, have_gil);
      break;
    case Kind::object:
      with_gil(have_gil, [handle] { drop(handle.object); });
      break;
    case Kind::buffer:
      with_gil(have_gil, [handle] {
        const PendingError pending;  // what the exporter does then may be Python
        PyBuffer_Release(handle.buffer);
        delete handle.buffer;
      });
      break;
    case Kind::device:
      DeviceMemory::give_back(handle.device, have_gil);
      break;
    case Kind::arrow:
      release_array(handle.arrow, have_gil);
      break;
    default:
      platform::free_aligned(handle.block);
  }
}

Storage* Storage::make(Owner&& owner, size_t bytes) noexcept {
  void* block = pool.get();
  return block == nullptr ? nullptr : new (block) Storage(std::move(owner), bytes);
}

void Storage::destroy(bool have_gil) noexcept {
  const auto bytes = static_cast<int64_t>(bytes_);
  if (have_gil) {
    live.bytes.add_with_gil(-bytes);
  } else {
    live.bytes.add(-bytes);
  }
  Owner owner(std::move(owner_));
  this->~Storage();
  pool.put(this, have_gil);
  owner.give_back(have_gil);
}

}  // namespace candle
