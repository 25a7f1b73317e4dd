// The DLPack routes: the C exchange table, __dlpack__, and raw capsules.
#include <algorithm>
#include <cstring>
#include <optional>

#include "cuda_driver.h"
#include "device_memory.h"
#include "ingest.h"
#include "layout.h"
#include "move.h"
#include "tensor.h"
#include "validate.h"

namespace candle {

namespace {

constexpr char versioned_name[] = "dltensor_versioned";
constexpr char legacy_name[] = "dltensor";
constexpr char used_versioned_name[] = "used_dltensor_versioned";
constexpr char used_legacy_name[] = "used_dltensor";

/// A framework's own way to make a device current, for as long as this lives.
class Guard {
 public:
  Guard() = default;
  ~Guard() {
    if (!manager_) return;
    const PendingError pending;
    const Ref unused = Ref::steal(
        PyObject_CallMethod(manager_.get(), "__exit__", "OOO", Py_None, Py_None, Py_None));
    if (!unused) PyErr_WriteUnraisable(manager_.get());
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// False with an error set.
  bool enter(PyObject* guard, DLDevice device) {
    Ref manager = Ref::steal(PyObject_CallFunction(guard, "i", static_cast<int>(device.device_id)));
    if (!manager) return false;
    const Ref entered = Ref::steal(PyObject_CallMethod(manager.get(), "__enter__", nullptr));
    if (!entered) return false;
    manager_ = std::move(manager);
    return true;
  }

 private:
  Ref manager_;
};

/// What `__dlpack_device__` said, if anything.
struct Announced {
  bool known = false;
  DLDevice device = {kDLCPU, 0};
};

/// Asks a framework's own file about an object that has been refused. False with an error set: why.
/// `other`, if any, is an array with a copy of its elements.
bool explain(const Ingest& ingest, const TypeRecord* record, Ref* other) {
  if (record == nullptr || record->explain == nullptr) return true;
  *other = Ref::steal(PyObject_CallOneArg(record->explain, ingest.x));
  if (other->get() == Py_None) *other = Ref();
  if (!PyErr_Occurred()) return true;
  if (!PyErr_ExceptionMatches(PyExc_BufferError)) blame_producer(ingest.producer());
  return false;
}

void impossible(const Ingest& ingest, const TypeRecord* record, const Fact& wrong) {
  Ref other;
  if (!explain(ingest, record, &other)) return;
  PyErr_Format(PyExc_BufferError, "%s exports an impossible tensor: %s", ingest.producer(),
               wrong.text);
}

/// A producer has raised: in the words of its framework's own file if it has some, or by the way
/// that file knows, else the producer's own error.
PyObject* failed(const Ingest& ingest, const TypeRecord& record) {
  if (PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_MemoryError)) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Ref kept[] = {Ref::steal(type), Ref::steal(value), Ref::steal(traceback)};
    Ref other;
    if (!explain(ingest, &record, &other)) return nullptr;
    if (other) {
      const Ingest given{ingest.type, other.get(), ingest.request, ingest.from()};
      return ingest_array_given(given, bit(Reason::no_export), false);
    }
    PyErr_Restore(kept[0].release(), kept[1].release(), kept[2].release());
  }
  blame_producer(ingest.producer());
  return nullptr;
}

bool right_version(const DLPackVersion& version, const char* producer) {
  if (version.major == DLPACK_MAJOR_VERSION) return true;
  PyErr_Format(PyExc_BufferError,
               "%s exports DLPack version %u.%u, and candle reads version %d; ask it for an older "
               "one with max_version",
               producer, version.major, version.minor, DLPACK_MAJOR_VERSION);
  return false;
}

/// False with an error set, or with what the framework's own file gives instead in `result`.
bool ask_device(const Ingest& ingest, const TypeRecord& record, Announced* announced,
                PyObject** result) {
  Ref method = protocol_attribute(ingest, state.names.dlpack_device);
  if (!method) return !PyErr_Occurred();
  Ref answer = Ref::steal(PyObject_CallNoArgs(method.get()));
  if (!answer) {
    *result = failed(ingest, record);
    return false;
  }
  if (!PyTuple_Check(answer.get()) || PyTuple_GET_SIZE(answer.get()) != 2) {
    PyErr_Format(PyExc_BufferError,
                 "%s.__dlpack_device__() gives %R, not a tuple of type and number",
                 ingest.producer(), answer.get());
    // The answer's own repr may have raised.
    if (!PyErr_ExceptionMatches(PyExc_BufferError)) blame_producer(ingest.producer());
    return false;
  }
  const long type = PyLong_AsLong(PyTuple_GET_ITEM(answer.get(), 0));
  PyObject* number = PyTuple_GET_ITEM(answer.get(), 1);
  long id = 0;
  if (!PyErr_Occurred() && number != Py_None) id = PyLong_AsLong(number);  // paddle says None
  if (PyErr_Occurred()) {
    blame_producer(ingest.producer());
    return false;
  }
  *announced = {true, {static_cast<DLDeviceType>(type), static_cast<int32_t>(id)}};
  if (announced->device.device_type == type && announced->device.device_id == id) return true;
  PyErr_Format(PyExc_BufferError, "%s.__dlpack_device__() gives %R, which no device has",
               ingest.producer(), answer.get());
  return false;
}

Ref ask_host_capsule(PyObject* method, bool legacy) {
  if (legacy) return Ref::steal(PyObject_CallNoArgs(method));
  Ref capsule =
      Ref::steal(PyObject_Vectorcall(method, &state.newest_version, 0, state.max_version_names));
  if (capsule || !PyErr_ExceptionMatches(PyExc_TypeError)) return capsule;
  // An old signature, from before max_version; or an error of its own, and then a new one may find
  // the second question worth a warning, which is none of the caller's.
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Ref first[] = {Ref::steal(type), Ref::steal(value), Ref::steal(traceback)};
  capsule = Ref::steal(PyObject_CallNoArgs(method));
  if (!capsule && PyErr_ExceptionMatches(PyExc_Warning)) {
    PyErr_Clear();
    PyErr_Restore(first[0].release(), first[1].release(), first[2].release());
  }
  return capsule;
}

/// The same of device memory: no ordering is asked for, where that can be said. Says which
/// signature the producer has.
Ref ask_device_capsule(const Ingest& ingest, const TypeRecord& record, DLDevice device,
                       bool* old_signature) {
  const bool streams = device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged ||
                       device.device_type == kDLROCM;
  const Ref stream = streams ? Ref::steal(PyLong_FromLongLong(record.import_stream))
                             : Ref::borrow(Py_None);  // other devices have streams of other kinds
  if (!stream) return {};
  const auto ask = [&] {
    return ask_capsule(ingest.x, stream.get(), *old_signature, record.device_guard, device);
  };
  Ref capsule = ask();
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();  // from before max_version
    *old_signature = true;
    capsule = ask();
  }
  return capsule;
}

PyObject* unusable(const char* name) {
  const bool used = name != nullptr && std::strncmp(name, "used_", 5) == 0;
  PyErr_Format(PyExc_BufferError,
               used ? "the capsule \"%s\" was consumed before; a capsule can be used once, so "
                      "call __dlpack__() again"
                    : "a capsule named \"%s\" is no DLPack capsule",
               name == nullptr ? "" : name);
  return nullptr;
}

bool contradicts(const Announced& announced, DLDevice device, const char* producer) {
  if (!announced.known || host_memory(announced.device) == host_memory(device)) return false;
  PyErr_Format(
      PyExc_BufferError,
      "%s announces DLPack device type %d and exports memory of type %d; candle trusts neither",
      producer, static_cast<int>(announced.device.device_type),
      static_cast<int>(device.device_type));
  return true;
}

/// Renames a capsule: from here on the managed tensor is ours. Its destructor is taken off too, in
/// case it ignores the name. Nothing with an error set.
Owner take(PyObject* capsule, bool versioned, void* managed) {
  if (PyCapsule_SetName(capsule, versioned ? used_versioned_name : used_legacy_name) != 0 ||
      PyCapsule_SetDestructor(capsule, nullptr) != 0) {
    return {};
  }
  return versioned ? Owner::versioned(static_cast<DLManagedTensorVersioned*>(managed))
                   : Owner::legacy(static_cast<DLManagedTensor*>(managed));
}

/// Consumes a capsule. Everything that can be wrong with it or forbids the move is found before it
/// is taken: a refused capsule can be given to others.
PyObject* consume(const Ingest& ingest, const TypeRecord* record, PyObject* capsule,
                  const Announced& announced, bool old_signature) {
  const char* producer = ingest.producer();
  if (!PyCapsule_CheckExact(capsule)) {
    PyErr_Format(PyExc_BufferError, "%s.__dlpack__() gives %s, not a capsule", producer,
                 Py_TYPE(capsule)->tp_name);
    return nullptr;
  }
  const Alone alone(capsule);  // of two threads that were given it one takes it
  const char* name = PyCapsule_GetName(capsule);
  const bool versioned = name != nullptr && std::strcmp(name, versioned_name) == 0;
  if (!versioned && (name == nullptr || std::strcmp(name, legacy_name) != 0)) return unusable(name);
  void* pointer = PyCapsule_GetPointer(capsule, name);
  if (pointer == nullptr) return nullptr;
  const auto* modern = static_cast<DLManagedTensorVersioned*>(pointer);
  const auto* old = static_cast<DLManagedTensor*>(pointer);
  if (versioned && !right_version(modern->version, producer)) return nullptr;
  const DLTensor& described = versioned ? modern->dl_tensor : old->dl_tensor;
  Source source;
  int64_t spare[max_ndim];
  Fact wrong;
  if (!validate(described, versioned ? modern->flags : 0, &source, spare, &wrong)) {
    impossible(ingest, record, wrong);
    return nullptr;
  }
  if (contradicts(announced, described.device, producer)) return nullptr;
  source.route = versioned ? Route::dlpack_versioned : Route::dlpack_legacy;
  if (record != nullptr) {
    source.read_only |= record->read_only;
    if (!ask_guards(*record, ingest.x, ingest.request.detached, &source)) return nullptr;
  }
  const Request& request = ingest.request;
  if (request.stream != nullptr && host_memory(source.device) && !parse_host_stream(request.stream))
    return nullptr;
  if (request.is_plain() && plainly_shares(source) && !watched()) {
    Owner owner = take(capsule, versioned, pointer);
    return owner ? share(ingest.type, source, std::move(owner)) : nullptr;
  }
  // Whose capsule it is may go on using it.
  if (request.dry != nullptr) return finish(ingest, source, Owner::object(Ref::borrow(capsule)));
  const bool lent = !host_memory(source.device);
  Lending lending(&source);
  Ref kept;
  int64_t extents[2][max_ndim];
  if (lent) {  // who is asked for a stream runs Python, which may use the capsule
    std::copy_n(source.shape, source.ndim, extents[0]);
    std::copy_n(source.strides, source.ndim, extents[1]);
    source.shape = extents[0];
    source.strides = extents[1];
  }
  if (lent && record == nullptr) {
    // Nobody can be asked: the standard promises what a stream of None does.
    lending.origin.stream = cuda::legacy_stream;
    if (request.stream != nullptr && !cuda_memory(source.device)) {
      PyErr_Format(PyExc_ValueError,
                   "stream= is for memory on CUDA devices, and this is on DLPack device type %d, "
                   "where candle orders nothing: wait for the stream, and leave stream= out",
                   static_cast<int>(source.device.device_type));
      return nullptr;
    }
    if (request.stream != nullptr && !parse_stream_object(request.stream, &lending.origin)) {
      return nullptr;
    }
  } else if (lent) {
    lending.record = record;
    lending.producer = ingest.x;
    lending.old_signature = old_signature;
    if (record->record_stream != nullptr && record->hold != nullptr) {
      kept = Ref::steal(PyObject_Vectorcall(record->hold, &ingest.x, 1, nullptr));
      if (!kept) {
        blame_producer(producer);
        return nullptr;
      }
      lending.keeper = kept.get();
    }
  }
  Admission admission;
  if (!admit(ingest, source, &admission)) return nullptr;
  // A watcher that was told of the move may have used the capsule.
  if (const char* now = PyCapsule_GetName(capsule); now != name) return unusable(now);
  Owner owner = take(capsule, versioned, pointer);
  if (!owner || (lent && !DeviceMemory::lend(source, &owner, std::move(lending)))) return nullptr;
  return carry_out(ingest, &admission, std::move(owner));
}

PyObject* refused_by_table(const Ingest& ingest, const TypeRecord& record) {
  if (!PyErr_Occurred()) {
    PyErr_Format(PyExc_BufferError, "the C exchange table of %s fails and gives no reason",
                 ingest.producer());
    return nullptr;
  }
  return failed(ingest, record);
}

PyObject* finish_exchange(const Ingest& ingest, const TypeRecord& record, const DLTensor& described,
                          uint64_t flags, Owner&& owner, PyObject* keeper) {
  Source source;
  int64_t spare[max_ndim];
  Fact wrong;
  if (!validate(described, flags, &source, spare, &wrong)) {
    impossible(ingest, &record, wrong);
    return nullptr;
  }
  source.route = Route::exchange;
  source.read_only |= record.read_only;
  if (!ask_guards(record, ingest.x, ingest.request.detached, &source)) return nullptr;
  if (!host_memory(source.device)) {
    Lending lending(&source);
    lending.record = &record;
    lending.producer = ingest.x;
    lending.keeper = keeper;
    if (!DeviceMemory::lend(source, &owner, std::move(lending))) return nullptr;
  }
  return finish(ingest, source, std::move(owner));
}

}  // namespace

PyObject* ingest_exchange(const Ingest& ingest, const TypeRecord& record) noexcept {
  if (record.hold != nullptr && record.table->dltensor_from_py_object_no_sync != nullptr) {
    DLTensor borrowed = {};
    if (record.table->dltensor_from_py_object_no_sync(ingest.x, &borrowed) != 0) {
      return refused_by_table(ingest, record);
    }
    const bool itself = record.holds_itself && host_memory(borrowed.device);
    Ref keeper = itself ? Ref::borrow(ingest.x)
                        : Ref::steal(PyObject_Vectorcall(record.hold, &ingest.x, 1, nullptr));
    if (!keeper) {
      blame_producer(ingest.producer());
      return nullptr;
    }
    PyObject* kept = keeper.get();
    return finish_exchange(ingest, record, borrowed, 0, Owner::object(std::move(keeper)), kept);
  }
  DLManagedTensorVersioned* managed = nullptr;
  if (record.table->managed_tensor_from_py_object_no_sync(ingest.x, &managed) != 0) {
    return refused_by_table(ingest, record);
  }
  // Whether what comes with an error is anybody's is not said: leaking it is safe.
  if (record.kind == TypeKind::foreign_exchange && PyErr_Occurred() != nullptr) {
    return refused_by_table(ingest, record);
  }
  if (managed == nullptr) {
    PyErr_Format(PyExc_BufferError, "the C exchange table of %s gives no tensor",
                 ingest.producer());
    return nullptr;
  }
  Owner owner = Owner::versioned(managed);
  if (!right_version(managed->version, ingest.producer())) return nullptr;
  return finish_exchange(ingest, record, managed->dl_tensor, managed->flags, std::move(owner),
                         nullptr);
}

bool ingest_dlpack(const Ingest& ingest, const TypeRecord& record, bool legacy,
                   PyObject** result) noexcept {
  *result = nullptr;
  if (PyType_Check(ingest.x)) return false;
  const Ref method = protocol_attribute(ingest, state.names.dlpack);
  if (!method) return PyErr_Occurred() != nullptr;
  Announced announced;
  if (!ask_device(ingest, record, &announced, result)) return true;
  bool old_signature = legacy;
  Ref capsule = announced.known && !host_memory(announced.device)
                    ? ask_device_capsule(ingest, record, announced.device, &old_signature)
                    : ask_host_capsule(method.get(), legacy);
  *result = capsule ? consume(ingest, &record, capsule.get(), announced, old_signature)
                    : failed(ingest, record);
  const PendingError pending;  // the capsule's own destructor may run Python
  capsule = {};
  return true;
}

PyObject* exchange_floor(PyObject*, PyObject* x) {
  const TypeRecord* record = record_of(Py_TYPE(x));
  if (record == nullptr) return nullptr;
  if (record->table == nullptr) {
    PyErr_Format(PyExc_LookupError, "%s has no C exchange table", Py_TYPE(x)->tp_name);
    return nullptr;
  }
  DLManagedTensorVersioned* managed = nullptr;
  if (record->table->managed_tensor_from_py_object_no_sync(x, &managed) != 0) return nullptr;
  if (managed->deleter != nullptr) managed->deleter(managed);
  Py_RETURN_NONE;
}

Ref ask_capsule(PyObject* producer, PyObject* stream, bool old_signature, PyObject* guard,
                DLDevice device) noexcept {
  const Ref method = Ref::steal(PyObject_GetAttr(producer, state.names.dlpack));
  if (!method) return {};
  Guard entered;
  std::optional<cuda::DeviceGuard> pushed;
  if (guard != nullptr) {
    if (!entered.enter(guard, device)) return {};
  } else if (device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged) {
    pushed.emplace(device.device_id);
  }
  PyObject* arguments[] = {stream, state.newest_version};
  PyObject* names = old_signature ? state.stream_name : state.stream_names;
  return Ref::steal(PyObject_Vectorcall(method.get(), arguments, 0, names));
}

const std::byte* capsule_data(PyObject* capsule) noexcept {
  const Alone alone(capsule);
  const DLTensor* described;
  if (PyCapsule_IsValid(capsule, versioned_name)) {
    described =
        &static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, versioned_name))
             ->dl_tensor;
  } else if (PyCapsule_IsValid(capsule, legacy_name)) {
    described =
        &static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, legacy_name))->dl_tensor;
  } else {
    return nullptr;
  }
  return static_cast<const std::byte*>(described->data) + described->byte_offset;
}

PyObject* ingest_capsule(const Ingest& ingest) noexcept {
  return consume(ingest, nullptr, ingest.x, Announced{}, false);
}

}  // namespace candle
