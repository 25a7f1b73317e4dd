// Storage: one block of memory, what owns it, and the one way it is given back. All views of the
// block hold it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "dtype_table.h"
#include "pyref.h"

namespace candle {

/// A number that is mostly changed under the GIL, where a plain add is enough: an atomic one costs
/// as much as the rest of the bookkeeping of a move.
class Counter {
 public:
  void add_with_gil(int64_t change) noexcept {
#ifdef Py_GIL_DISABLED
    add(change);
#else
    held_.store(held_.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
#endif
  }
  void add(int64_t change) noexcept { free_.fetch_add(change, std::memory_order_relaxed); }
  int64_t get() const noexcept {
    return held_.load(std::memory_order_relaxed) + free_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> held_{0};
  std::atomic<int64_t> free_{0};
};

/// What is alive, for leak checks.
struct Counters {
  Counter tensors;
  Counter storages;
  Counter bytes;  // of candle's own memory
  Counter exports;
};
extern Counters live;

class Storage {
 public:
  /// With the GIL. Each takes over what it is given, on failure (nullptr: no memory) too.
  static Storage* of_versioned(DLManagedTensorVersioned* managed) noexcept;
  static Storage* of_legacy(DLManagedTensor* managed) noexcept;
  static Storage* of_object(PyObject* owner) noexcept;
  static Storage* of_buffer(Py_buffer* buffer) noexcept;
  /// Fresh memory: `bytes` of it at a multiple of `alignment` (a power of two). No memory at all
  /// for 0 bytes.
  static Storage* allocate(size_t bytes, size_t alignment, std::byte** data) noexcept;

  void retain() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  /// Any thread, with or without the GIL, also after the interpreter's end. `have_gil` saves asking
  /// for it.
  void release(bool have_gil) noexcept {
    if (count_.load(std::memory_order_acquire) == 1 ||
        count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      destroy(have_gil);
    }
  }

 private:
  enum class Owner : uint8_t { versioned, legacy, object, buffer, own };
  union Handle {
    DLManagedTensorVersioned* versioned;
    DLManagedTensor* legacy;
    PyObject* object;
    Py_buffer* buffer;
    void* block;
  };
  Storage(Owner owner, Handle handle, size_t bytes)
      : owner_(owner), handle_(handle), bytes_(bytes) {}
  static Storage* make(Owner owner, Handle handle, size_t bytes = 0) noexcept;
  static void give_back(Owner owner, Handle handle, bool have_gil) noexcept;
  void destroy(bool have_gil) noexcept;

  std::atomic<int64_t> count_{1};
  Owner owner_;
  Handle handle_;
  size_t bytes_;
};

/// One reference to a Storage, or none. Used where the GIL is held.
class StorageRef {
 public:
  StorageRef() = default;
  static StorageRef steal(Storage* storage) { return StorageRef(storage); }
  static StorageRef borrow(Storage* storage) {
    if (storage != nullptr) storage->retain();
    return StorageRef(storage);
  }
  StorageRef(StorageRef&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {}
  StorageRef& operator=(StorageRef&& other) noexcept {
    Storage* old = std::exchange(storage_, std::exchange(other.storage_, nullptr));
    if (old != nullptr) old->release(true);
    return *this;
  }
  StorageRef(const StorageRef&) = delete;
  StorageRef& operator=(const StorageRef&) = delete;
  ~StorageRef() {
    if (storage_ == nullptr) return;
    const PendingError pending;
    storage_->release(true);
  }
  Storage* get() const { return storage_; }
  explicit operator bool() const { return storage_ != nullptr; }
  [[nodiscard]] Storage* release() { return std::exchange(storage_, nullptr); }

 private:
  explicit StorageRef(Storage* storage) : storage_(storage) {}
  Storage* storage_ = nullptr;
};

}  // namespace candle
