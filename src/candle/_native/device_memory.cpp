#include "device_memory.h"

#include <new>

#include "ingest.h"
#include "move.h"
#include "state.h"
#include "tensor.h"

namespace candle {

namespace {

bool same_stream(const Pending* pending, int count, cuda::Stream stream) {
  for (int i = 0; i < count; i++) {
    if (pending[i].stream == stream) return true;
  }
  return false;
}

/// A number of this thread's that no other thread ever has: those of the system are used again.
uint64_t this_thread() noexcept {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

/// The default stream has two names: a handle of 0 means the legacy one to a driver.
cuda::Stream from_handle(uintptr_t handle) { return handle == 0 ? cuda::legacy_stream : handle; }

bool parse_handle(PyObject* number, Pending* pending) {
  if (!PyLong_Check(number) || PyBool_Check(number)) {
    PyErr_Format(PyExc_TypeError, "a stream's handle is an int, not %R", number);
    return false;
  }
  const unsigned long long handle = PyLong_AsUnsignedLongLong(number);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%R is no handle of a CUDA stream", number);
    return false;
  }
  pending->stream = from_handle(static_cast<uintptr_t>(handle));
  pending->thread = this_thread();
  return true;
}

}  // namespace

cuda::Stream Pending::here() const noexcept {
  const bool elsewhere = stream == cuda::per_thread_stream && thread != this_thread();
  return elsewhere ? cuda::legacy_stream : stream;
}

struct DeviceMemory::Recorded {
  Pending pending;
  PyObject* stream;  // which of them; held by what is pending
  Recorded* next;
};

bool parse_stream_object(PyObject* object, Pending* pending) noexcept {
  if (PyLong_Check(object)) return parse_handle(object, pending);
  const Ref method = Ref::steal(PyObject_GetAttr(object, state.names.cuda_stream));
  if (!method) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
    PyErr_Format(PyExc_TypeError,
                 "%s is no stream: it has no __cuda_stream__; pass a stream of torch, cupy or "
                 "cuda.core",
                 Py_TYPE(object)->tp_name);
    return false;
  }
  // A property in older libraries, a method in newer ones.
  const Ref answer = PyCallable_Check(method.get()) ? Ref::steal(PyObject_CallNoArgs(method.get()))
                                                    : Ref::borrow(method.get());
  if (!answer) return false;
  if (!PyTuple_Check(answer.get()) || PyTuple_GET_SIZE(answer.get()) != 2) {
    PyErr_Format(PyExc_TypeError, "%s.__cuda_stream__ gives %R, not a version and a handle",
                 Py_TYPE(object)->tp_name, answer.get());
    return false;
  }
  PyObject* version = PyTuple_GET_ITEM(answer.get(), 0);
  if (!PyLong_Check(version) || PyLong_AsLong(version) != 0) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError,
                 "%s.__cuda_stream__ speaks version %R of the protocol, and candle knows 0",
                 Py_TYPE(object)->tp_name, version);
    return false;
  }
  pending->object = Ref::borrow(object);
  return parse_handle(PyTuple_GET_ITEM(answer.get(), 1), pending);
}

bool interface_stream(PyObject* interface, Pending* pending) noexcept {
  const Ref held = PyDict_Check(interface) ? entry_of(interface, state.names.stream) : Ref();
  PyObject* stream = held.get();
  if (stream == nullptr || stream == Py_None) return PyErr_Occurred() == nullptr;
  int overflow = 0;
  const bool zero = PyLong_Check(stream) && PyLong_AsLongLongAndOverflow(stream, &overflow) == 0;
  if (!zero && parse_handle(stream, pending)) return true;
  if (!forgive()) return false;
  PyErr_Format(PyExc_BufferError,
               "the CUDA array interface has the stream %R; it is None, 1 (the legacy default "
               "stream), 2 (the thread's), or a handle",
               stream);
  return false;
}

const std::byte* interface_address(PyObject* interface) noexcept {
  const Ref data = PyDict_Check(interface) ? entry_of(interface, state.names.data) : Ref();
  const bool pair = data && PyTuple_Check(data.get()) && PyTuple_GET_SIZE(data.get()) == 2;
  void* address = pair ? PyLong_AsVoidPtr(PyTuple_GET_ITEM(data.get(), 0)) : nullptr;
  PyErr_Clear();
  return static_cast<const std::byte*>(address);
}

bool parse_consumer_stream(PyObject* stream, cuda::Stream* later, bool* ordered) noexcept {
  *later = cuda::legacy_stream;
  *ordered = true;
  if (stream == nullptr || stream == Py_None) return true;
  if (PyLong_Check(stream) && !PyBool_Check(stream)) {
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(stream, &overflow);
    if (overflow == 0 && number >= -1) {
      *ordered = number != -1;
      if (number > 0) *later = static_cast<cuda::Stream>(number);
      return true;
    }
  }
  // No TypeError: consumers take that for an old signature, and would ask again without a stream.
  PyErr_Format(PyExc_ValueError,
               "stream=%R is no CUDA stream; pass None, 1, 2, a stream's handle, or -1 for no "
               "ordering",
               stream);
  return false;
}

void cuda_failed(const char* doing, cuda::Result result) noexcept {
  const cuda::Words words = cuda::explain(result);
  PyErr_Format(PyExc_BufferError, "candle cannot %s: %s", doing, words.text);
}

bool StreamSource::current(DLDevice device, Pending* pending) const noexcept {
  if (ask) {
    const Ref number = Ref::steal(PyLong_FromLong(device.device_id));
    const Ref stream = number ? Ref::steal(PyObject_CallOneArg(ask.get(), number.get())) : Ref();
    return stream && parse_stream_object(stream.get(), pending);
  }
  void* handle = nullptr;
  const int code = table->current_work_stream(device.device_type, device.device_id, &handle);
  if (code != 0 || PyErr_Occurred() != nullptr) return false;
  pending->stream = from_handle(reinterpret_cast<uintptr_t>(handle));
  pending->thread = this_thread();
  return true;
}

bool DeviceMemory::lend(const Source& source, Owner* owner, Lending&& lending) noexcept {
  auto* block = new (std::nothrow) DeviceMemory;
  if (block == nullptr) {
    PyErr_NoMemory();
    return false;
  }
  block->memory_ = std::move(*owner);
  *owner = Owner::device(block);
  block->managed_ = lending.managed;
  block->device_ = source.device;
  block->data_ = source.size == 0 ? nullptr : source.data;
  block->old_signature_ = lending.old_signature;
  block->by_interface_ = lending.by_interface;
  block->producer_ = Ref::borrow(lending.producer);
  if (lending.producer != nullptr) {
    block->lender_ = Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(lending.producer)));
  }
  block->keeper_ = Ref::borrow(lending.keeper);
  block->origin_ = std::move(lending.origin);
  const TypeRecord* record = lending.record;
  if (record != nullptr) block->guard_ = Ref::borrow(record->device_guard);
  if (record == nullptr || !cuda_memory(source.device)) return true;
  if (lending.keeper != nullptr) block->recorder_ = Ref::borrow(record->record_stream);
  block->framework_.ask = Ref::borrow(record->work_stream);
  if (!block->framework_.ask && record->table != nullptr &&
      record->table->current_work_stream != nullptr) {
    block->framework_.table = record->table;
  }
  if (!block->framework_) return true;
  block->producer_ = {};
  if (block->framework_.current(source.device, &block->origin_)) return true;
  blame_producer(record->type.load()->tp_name, naming_streams);
  return false;
}

bool DeviceMemory::sources(Pending* pending, int* count) noexcept {
  *count = 0;
  const auto add = [&](Pending&& one) {
    if (one.stream == 0 || same_stream(pending, *count, one.stream)) return;
    pending[(*count)++] = std::move(one);
  };
  add({origin_.here(), Ref::borrow(origin_.object.get())});
  if (framework_) {
    Pending now;
    if (!framework_.current(device_, &now)) {
      blame_producer("the producer's framework", naming_streams);
      return false;
    }
    add(std::move(now));
  } else if (by_interface_) {
    const Ref interface =
        Ref::steal(PyObject_GetAttr(producer_.get(), state.names.cuda_array_interface));
    Pending now;
    if (!interface) {
      blame_producer(Py_TYPE(producer_.get())->tp_name);
      return false;
    }
    if (!still_there(interface_address(interface.get())) ||
        !interface_stream(interface.get(), &now)) {
      return false;
    }
    add(std::move(now));
  }
  return true;
}

bool DeviceMemory::order_before(cuda::Stream later) noexcept {
  Pending pending[most_sources];
  int count;
  if (!sources(pending, &count)) return false;
  for (int i = 0; i < count; i++) {
    const cuda::Result result = cuda::order(device_.device_id, pending[i].stream, later);
    if (result == cuda::success) continue;
    cuda_failed("make the consumer's stream wait for the producer's", result);
    return false;
  }
  if (by_interface_ || !producer_) return true;
  const Ref stream = Ref::steal(PyLong_FromUnsignedLongLong(later));
  return stream && ask_again(stream.get());
}

bool DeviceMemory::gather(cuda::Stream* stream) noexcept {
  Pending pending[most_sources];
  int count;
  if (!sources(pending, &count)) return false;
  *stream = count > 0 ? pending[count - 1].stream : cuda::legacy_stream;
  return order_before(*stream);
}

bool DeviceMemory::relay(PyObject* stream) noexcept { return !producer_ || ask_again(stream); }

bool DeviceMemory::ask_again(PyObject* stream) noexcept {
  Ref capsule = ask_capsule(producer_.get(), stream, old_signature_, guard_.get(), device_);
  if (!capsule) {
    blame_producer(Py_TYPE(producer_.get())->tp_name);
    return false;
  }
  const bool same = still_there(capsule_data(capsule.get()));
  const PendingError pending;  // the capsule's own destructor may run Python
  capsule = {};
  return same;
}

bool DeviceMemory::still_there(const std::byte* now) const noexcept {
  if (data_ == nullptr || now == data_) return true;
  PyErr_Format(PyExc_BufferError,
               "%s has moved its memory since candle took it; take it again with from_dlpack",
               Py_TYPE(producer_.get())->tp_name);
  return false;
}

bool DeviceMemory::wait() noexcept {
  Pending pending[most_sources];
  int count;
  if (!sources(pending, &count)) return false;
  if (producer_ && !by_interface_) {  // it named no stream
    if (!order_before(cuda::legacy_stream)) return false;
    pending[count++] = {cuda::legacy_stream, Ref()};
  }
  for (int i = 0; i < count; i++) {
    // The legacy stream comes after all others, but only with what is queued on it itself.
    const bool legacy = pending[i].stream == cuda::legacy_stream;
    const cuda::Stream last = legacy ? cuda::per_thread_stream : pending[i].stream;
    cuda::Result result;
    {
      const WithoutGil without(true);
      result = cuda::order(device_.device_id, pending[i].stream, last);
      if (result == cuda::success) result = cuda::synchronize(device_.device_id, last);
    }
    if (result == cuda::success) continue;
    cuda_failed("wait for the producer's stream", result);
    return false;
  }
  return true;
}

bool DeviceMemory::knows_stream(const char* method) const noexcept {
  if (framework_ || by_interface_ || origin_.stream != 0) return true;
  PyErr_Format(PyExc_BufferError,
               "%s: candle does not know on which stream %s works; wait for yours on the host "
               "instead, stream.synchronize()",
               method, Py_TYPE(producer_.get())->tp_name);
  return false;
}

bool DeviceMemory::order_after(cuda::Stream earlier) noexcept {
  if (!knows_stream("wait_for")) return false;
  Pending now{origin_.here(), Ref()};
  if (framework_) {
    if (!framework_.current(device_, &now)) {
      blame_producer("the producer's framework", naming_streams);
      return false;
    }
  } else if (by_interface_) {
    Pending pending[most_sources];
    int count;
    if (!sources(pending, &count)) return false;
    if (count > 0) now.stream = pending[count - 1].stream;
  }
  const cuda::Result result = cuda::order(device_.device_id, earlier, from_handle(now.stream));
  if (result == cuda::success) return true;
  cuda_failed("make the producer's stream wait", result);
  return false;
}

bool DeviceMemory::record_stream(PyObject* stream) noexcept {
  Pending pending;
  if (!PyLong_Check(stream) || PyBool_Check(stream)) {
    if (!parse_stream_object(stream, &pending)) return false;
  } else {
    PyErr_SetString(PyExc_TypeError,
                    "record_stream takes a stream object of torch, cupy or cuda.core, not a "
                    "handle: handles are given to other streams when theirs is gone");
    return false;
  }
  if (!knows_stream("record_stream")) return false;
  // At the release nobody can be told, and a framework may end the process.
  const cuda::Result result = cuda::look_at(device_.device_id, pending.stream);
  if (result != cuda::success) {
    cuda_failed("keep the memory for a stream", result);
    return false;
  }
  if (recorder_) {
    PyObject* arguments[] = {keeper_.get(), stream, nullptr};
    const Ref number = Ref::steal(PyLong_FromLong(device_.device_id));
    arguments[2] = number.get();
    const Ref told =
        number ? Ref::steal(PyObject_Vectorcall(recorder_.get(), arguments, 3, nullptr)) : Ref();
    if (!told) return false;
    pending.stream = 0;  // its framework waits; the object is held all the same
  }
  Recorded* first = recorded_.load(std::memory_order_acquire);
  for (const Recorded* at = first; at != nullptr; at = at->next) {
    if (at->stream == stream) return true;
  }
  auto* one = new (std::nothrow) Recorded{std::move(pending), stream, first};
  if (one == nullptr) {
    PyErr_NoMemory();
    return false;
  }
  while (!recorded_.compare_exchange_weak(one->next, one, std::memory_order_acq_rel)) {
  }
  return true;
}

void DeviceMemory::give_back(DeviceMemory* block, bool have_gil) noexcept {
  const bool ending = interpreter_ending();
  // A consumer may still be reading: freed memory would be handed out under it.
  if (block->recorded_ != nullptr && ending) return;
  for (const Recorded* at = block->recorded_; at != nullptr; at = at->next) {
    // Nobody can be told of a failure here; the memory then goes as it would have without the call.
    if (at->pending.stream == 0) continue;
    cuda::order(block->device_.device_id, at->pending.here(), from_handle(block->origin_.here()));
  }
  block->memory_.give_back(have_gil);
  if (ending) return;  // the objects are left alone on purpose
  with_gil(have_gil, [block] {
    for (Recorded* at = block->recorded_.load(); at != nullptr;) {
      Recorded* next = at->next;
      delete at;
      at = next;
    }
    delete block;
  });
}

bool order_for(Tensor* tensor, PyObject* stream, cuda::Stream later) noexcept {
  DeviceMemory* block = tensor->owner.device_memory();
  if (block == nullptr) return true;
  if (cuda_memory(tensor->device)) return block->order_before(later);
  return block->relay(stream == nullptr ? Py_None : stream);
}

namespace {

/// The lent memory of a tensor on a CUDA device; nullptr with an error set.
DeviceMemory* lent_memory(PyObject* self, const char* method) {
  auto* tensor = reinterpret_cast<Tensor*>(self);
  DeviceMemory* block = tensor->owner.device_memory();
  if (block != nullptr && cuda_memory(tensor->device)) return block;
  PyErr_Format(PyExc_BufferError, "%s is for memory on CUDA devices; this tensor has no streams",
               method);
  return nullptr;
}

}  // namespace

PyObject* record_stream(PyObject* self, PyObject* stream) {
  DeviceMemory* block = lent_memory(self, "record_stream");
  if (block == nullptr || !block->record_stream(stream)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* wait_for(PyObject* self, PyObject* stream) {
  DeviceMemory* block = lent_memory(self, "wait_for");
  Pending pending;
  if (block == nullptr || !parse_stream_object(stream, &pending) ||
      !block->order_after(pending.stream)) {
    return nullptr;
  }
  Py_RETURN_NONE;
}

}  // namespace candle
