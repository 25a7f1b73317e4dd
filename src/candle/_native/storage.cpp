#include "storage.h"

#include <cstdlib>
#include <new>

namespace candle {

Counters live;

namespace {

/// Drops a Python owner. After the interpreter's end it is left alone on purpose: there is nothing that could take it.
template <typename Drop>
void with_gil(bool have_gil, Drop drop_owner) noexcept {
  if (interpreter_ending()) return;
  if (have_gil) {
    drop_owner();
    return;
  }
  const PyGILState_STATE gil = PyGILState_Ensure();
  {
    const PendingError pending;
    drop_owner();
  }
  PyGILState_Release(gil);
}

}  // namespace

Storage* Storage::make(Owner owner, Handle handle, size_t bytes) noexcept {
  Storage* storage = new (std::nothrow) Storage(owner, handle, bytes);
  if (storage == nullptr) {
    give_back(owner, handle, true);
    return nullptr;
  }
  live.storages.fetch_add(1, std::memory_order_relaxed);
  return storage;
}

Storage* Storage::of_versioned(DLManagedTensorVersioned* managed) noexcept {
  return make(Owner::versioned, {.versioned = managed});
}

Storage* Storage::of_legacy(DLManagedTensor* managed) noexcept {
  return make(Owner::legacy, {.legacy = managed});
}

Storage* Storage::of_object(PyObject* owner) noexcept { return make(Owner::object, {.object = owner}); }

Storage* Storage::of_buffer(Py_buffer* buffer) noexcept { return make(Owner::buffer, {.buffer = buffer}); }

Storage* Storage::allocate(size_t bytes, size_t alignment, std::byte** data) noexcept {
  void* block = nullptr;
  if (bytes > 0) {
    if (alignment < sizeof(void*)) alignment = sizeof(void*);
    if (posix_memalign(&block, alignment, bytes) != 0) return nullptr;
  }
  Storage* storage = make(Owner::own, {.block = block}, bytes);
  if (storage == nullptr) return nullptr;
  live.bytes.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
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
  live.storages.fetch_sub(1, std::memory_order_relaxed);
  if (bytes_ != 0) live.bytes.fetch_sub(static_cast<int64_t>(bytes_), std::memory_order_relaxed);
  const Owner owner = owner_;
  const Handle handle = handle_;
  delete this;
  give_back(owner, handle, have_gil);
}

}  // namespace candle
