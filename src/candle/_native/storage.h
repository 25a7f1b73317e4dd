// Who owns a block of memory, and the one way it is given back. All tensors and exports that look
// at a block hold it through one Storage, made when there is a second one of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "arrow_abi.h"
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

class DeviceMemory;
class Storage;

/// The duty to give a block of memory back, once: a producer's struct, a Python object, a buffer,
/// or a share of a Storage. Without a Storage it has one holder, which is all that most tensors
/// need.
class Owner {
 public:
  Owner() noexcept = default;
  /// With the GIL. Each takes over what it is given.
  static Owner versioned(DLManagedTensorVersioned* managed) noexcept {
    return {Kind::versioned, {.versioned = managed}};
  }
  static Owner legacy(DLManagedTensor* managed) noexcept {
    return {Kind::legacy, {.legacy = managed}};
  }
  static Owner object(Ref&& object) noexcept {
    return {Kind::object, {.object = object.release()}};
  }
  static Owner buffer(Py_buffer* buffer) noexcept { return {Kind::buffer, {.buffer = buffer}}; }
  static Owner device(DeviceMemory* block) noexcept { return {Kind::device, {.device = block}}; }
  /// A struct that was moved into memory of its own (`new`).
  static Owner arrow(ArrowArray* array) noexcept { return {Kind::arrow, {.arrow = array}}; }
  /// Fresh memory, to be shared by whom asks: `bytes` of it at a multiple of `alignment` (a power
  /// of two). No memory at all for 0 bytes. An empty Owner where there is none to be had.
  static Owner allocate(size_t bytes, size_t alignment, std::byte** data) noexcept;

  Owner(Owner&& other) noexcept
      : kind_(std::exchange(other.kind_, Kind::none)), handle_(other.handle_) {}
  Owner& operator=(Owner&& other) noexcept {
    Owner old(std::move(*this));
    kind_ = std::exchange(other.kind_, Kind::none);
    handle_ = other.handle_;
    return *this;
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  /// With the GIL. A pending exception stays.
  ~Owner() {
    if (kind_ != Kind::none) give_back(true);
  }

  explicit operator bool() const noexcept { return kind_ != Kind::none; }

  /// Moves this duty into a Storage of which this becomes a share; false where there is no memory
  /// for one. With the GIL.
  bool become_share() noexcept;

  /// A second one of this, by way of a Storage; an empty one where there is no memory for that.
  /// With the GIL.
  Owner share() noexcept {
    if (kind_ != Kind::storage && !become_share()) return {};
    retain(handle_.storage);
    return {Kind::storage, handle_};
  }

  /// The Python object behind this, if it is one. Borrowed.
  PyObject* python_object() const noexcept;

  /// The lent device memory behind this, if any.
  DeviceMemory* device_memory() const noexcept;

  /// Any thread, with or without the GIL, also after the interpreter's end. `have_gil` saves asking
  /// for it.
  void give_back(bool have_gil) noexcept;

 private:
  enum class Kind : uint8_t {
    none,
    versioned,
    legacy,
    object,
    buffer,
    device,
    arrow,
    block,
    storage,
  };
  union Handle {
    DLManagedTensorVersioned* versioned;
    DLManagedTensor* legacy;
    PyObject* object;
    Py_buffer* buffer;
    DeviceMemory* device;
    ArrowArray* arrow;
    void* block;
    Storage* storage;
  };
  static void retain(Storage* storage) noexcept;
  Owner(Kind kind, Handle handle) noexcept : kind_(kind), handle_(handle) {
    if (kind != Kind::storage) live.storages.add_with_gil(1);
  }

  Kind kind_ = Kind::none;
  Handle handle_;
};

/// A block of memory with several holders.
class Storage {
 public:
  void retain() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  /// As `Owner::give_back`.
  void release(bool have_gil) noexcept {
    if (count_.load(std::memory_order_acquire) == 1 ||
        count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      destroy(have_gil);
    }
  }

 private:
  friend class Owner;
  Storage(Owner&& owner, size_t bytes) noexcept : owner_(std::move(owner)), bytes_(bytes) {}
  /// Takes the owner over, or leaves it alone and gives nullptr.
  static Storage* make(Owner&& owner, size_t bytes = 0) noexcept;
  void destroy(bool have_gil) noexcept;

  std::atomic<int64_t> count_{1};
  Owner owner_;
  size_t bytes_;  // of candle's own memory
};

inline void Owner::retain(Storage* storage) noexcept { storage->retain(); }

inline PyObject* Owner::python_object() const noexcept {
  if (kind_ == Kind::storage) return handle_.storage->owner_.python_object();
  if (kind_ == Kind::buffer) return handle_.buffer->obj;
  return kind_ == Kind::object ? handle_.object : nullptr;
}

inline DeviceMemory* Owner::device_memory() const noexcept {
  if (kind_ == Kind::storage) return handle_.storage->owner_.device_memory();
  return kind_ == Kind::device ? handle_.device : nullptr;
}

/// Drops Python owners. After the interpreter's end they are left alone on purpose: there is
/// nothing that could take them.
template <typename Drop>
void with_gil(bool have_gil, Drop drop_owner) noexcept {
  if (have_gil) {
    drop_owner();
    return;
  }
  if (interpreter_ending()) return;
  const PyGILState_STATE gil = PyGILState_Ensure();
  {
    const PendingError pending;
    drop_owner();
  }
  PyGILState_Release(gil);
}

}  // namespace candle
