#include "storage.h"

#include <cstdlib>
#include <new>

namespace candle {

Counters live;

namespace {

/// Drops a Python owner. After the interpreter's end it is left alone on purpose: there is nothing
/// that could take it.
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

/// Blocks of dropped storages, kept for the next ones. Touched with the GIL only.
class Pool {
 public:
  void* get() {
    if (count_ > 0) return blocks_[--count_];
    return std::malloc(sizeof(Storage));
  }
  void put(void* block, bool have_gil) {
#ifdef Py_GIL_DISABLED
    have_gil = false;
#endif
    if (have_gil && count_ < capacity) {
      blocks_[count_++] = block;
    } else {
      std::free(block);
    }
  }

 private:
  static constexpr int capacity = 64;
  void* blocks_[capacity];
  int count_ = 0;
};
Pool pool;

}  // namespace

Storage* Storage::make(Owner owner, Handle handle, size_t bytes) noexcept {
  void* block = pool.get();
  if (block == nullptr) {
    give_back(owner, handle, true);
    return nullptr;
  }
  Storage* storage = new (block) Storage(owner, handle, bytes);
  live.storages.add_with_gil(1);
  return storage;
}

Storage* Storage::of_versioned(DLManagedTensorVersioned* managed) noexcept {
  return make(Owner::versioned, {.versioned = managed});
}

Storage* Storage::of_legacy(DLManagedTensor* managed) noexcept {
  return make(Owner::legacy, {.legacy = managed});
}

Storage* Storage::of_object(PyObject* owner) noexcept {
  return make(Owner::object, {.object = owner});
}

Storage* Storage::of_buffer(Py_buffer* buffer) noexcept {
  return make(Owner::buffer, {.buffer = buffer});
}

Storage* Storage::allocate(size_t bytes, size_t alignment, std::byte** data) noexcept {
  void* block = nullptr;
  if (bytes > 0) {
    if (alignment < sizeof(void*)) alignment = sizeof(void*);
    if (posix_memalign(&block, alignment, bytes) != 0) return nullptr;
  }
  Storage* storage = make(Owner::own, {.block = block}, bytes);
  if (storage == nullptr) return nullptr;
  live.bytes.add_with_gil(static_cast<int64_t>(bytes));
  *data = static_cast<std::byte*>(block);
  return storage;
}

void Storage::give_back(Owner owner, Handle handle, bool have_gil) noexcept {
  switch (owner) {
    case Owner::versioned:
      if (handle.versioned->deleter != nullptr) handle.versioned->deleter(handle.versioned);
      break;
    case Owner::legacy:
      if (handle.legacy->deleter != nullptr) handle.legacy->deleter(handle.legacy);
      break;
    case Owner::object:
      with_gil(have_gil, [handle] { drop(handle.object); });
      break;
    case Owner::buffer:
      with_gil(have_gil, [handle] {
        PyBuffer_Release(handle.buffer);
        delete handle.buffer;
      });
      break;
    case Owner::own:
      std::free(handle.block);
      break;
  }
}

void Storage::destroy(bool have_gil) noexcept {
  const auto bytes = static_cast<int64_t>(bytes_);
  if (have_gil) {
    live.storages.add_with_gil(-1);
    live.bytes.add_with_gil(-bytes);
  } else {
    live.storages.add(-1);
    live.bytes.add(-bytes);
  }
  const Owner owner = owner_;
  const Handle handle = handle_;
  this->~Storage();
  pool.put(this, have_gil);
  give_back(owner, handle, have_gil);
}

}  // namespace candle
