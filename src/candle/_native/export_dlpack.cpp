// __dlpack__: what candle hands out, no consumer can crash on or misread.
#include <climits>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "copying.h"
#include "device_memory.h"
#include "export.h"
#include "move.h"
#include "tensor.h"
#include "words.h"

namespace candle {

namespace {

/// A managed struct of either version, its extents behind it in the same allocation.
template <typename Managed>
struct Export {
  Managed managed;
  Owner owner;
};

/// Runs on any thread, with or without the GIL, also after the interpreter's end.
template <typename Managed>
void delete_export(Managed* managed) noexcept {
  auto* exported = reinterpret_cast<Export<Managed>*>(managed);
  Owner owner(std::move(exported->owner));
  std::free(exported);
  live.exports.add(-1);
  owner.give_back(false);
}

template <typename Managed>
Managed* export_tensor(Tensor* tensor) {
  Owner owner = share_of(tensor);
  if (!owner) return nullptr;
  const auto ndim = static_cast<size_t>(tensor->ndim());
  const size_t extents = 2 * ndim * sizeof(int64_t);
  auto* exported = static_cast<Export<Managed>*>(std::malloc(sizeof(Export<Managed>) + extents));
  if (exported == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  auto* shape = reinterpret_cast<int64_t*>(exported + 1);
  std::memcpy(shape, tensor->shape(), extents);
  new (&exported->owner) Owner(std::move(owner));
  exported->managed.manager_ctx = exported;
  exported->managed.deleter = delete_export<Managed>;
  exported->managed.dl_tensor = {
      .data = tensor->size == 0 ? nullptr : tensor->data,
      .device = tensor->device,
      .ndim = tensor->ndim(),
      .dtype = tensor->row().dlpack,
      .shape = shape,
      .strides = shape + ndim,
      .byte_offset = 0,
  };
  live.exports.add_with_gil(1);
  return &exported->managed;
}

template <typename Managed>
constexpr const char* capsule_name() {
  return sizeof(Managed) == sizeof(DLManagedTensor) ? "dltensor" : "dltensor_versioned";
}

/// A capsule nobody consumed still owes its deleter; one that was consumed has another name.
template <typename Managed>
void destroy_capsule(PyObject* capsule) {
  const char* name = PyCapsule_GetName(capsule);
  if (name == nullptr || std::strcmp(name, capsule_name<Managed>()) != 0) return;
  const PendingError pending;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

template <typename Managed>
PyObject* capsule_of(Managed* managed) {
  if (managed == nullptr) return nullptr;
  PyObject* capsule = PyCapsule_New(managed, capsule_name<Managed>(), destroy_capsule<Managed>);
  if (capsule == nullptr) managed->deleter(managed);
  return capsule;
}

/// What the keywords of `__dlpack__` asked for.
struct Asked {
  bool versioned = false;
  bool one_a_byte = false;  // a consumer of DLPack 1.0
  CopyMode copy = CopyMode::if_needed;
  DLDevice device;  // the tensor's own, or what dl_device= says
  PyObject* stream = nullptr;
};

/// A tuple of two ints; false with an error set.
bool parse_pair(PyObject* value, const char* what, long pair[2]) {
  if (PyTuple_Check(value) && PyTuple_GET_SIZE(value) == 2) {
    for (int i = 0; i < 2; i++) {
      int overflow = 0;
      pair[i] = PyLong_AsLongAndOverflow(PyTuple_GET_ITEM(value, i), &overflow);
      if (overflow != 0) pair[i] = overflow < 0 ? LONG_MIN : LONG_MAX;
    }
    if ((pair[0] != -1 && pair[1] != -1) || !PyErr_Occurred()) return true;
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return false;
    PyErr_Clear();
  }
  const Ref text = in_words(value);
  if (text) PyErr_Format(PyExc_TypeError, "%s, not %U", what, text.get());
  return false;
}

bool parse_max_version(PyObject* value, Asked* asked) {
  if (value == Py_None) return true;
  long version[2] = {};
  if (!parse_pair(value, "max_version is None or a tuple of ints (major, minor)", version))
    return false;
  asked->versioned = version[0] >= DLPACK_MAJOR_VERSION;
  asked->one_a_byte = version[0] == 1 && version[1] < 1;
  return true;
}

/// Where a tensor's memory is said to lie. torch's pinned memory is announced as pinned and
/// exported as plain memory of the host: consumers rely on both. False with an error set.
bool announced_device(const Tensor* tensor, DLDevice* device) {
  *device = tensor->device;
  PyObject* owner = device->device_type == kDLCPU ? tensor->owner.python_object() : nullptr;
  const int pinned = owner == nullptr ? 0 : ask_pinned(owner);
  if (pinned > 0) *device = {kDLCUDAHost, 0};
  if (pinned < 0) blame_producer(Py_TYPE(owner)->tp_name);
  return pinned >= 0;
}

/// `device`: in, the tensor's own; out, the one asked for.
bool parse_dl_device(PyObject* value, const Tensor* tensor, DLDevice* device) {
  if (value == Py_None) return true;
  long wanted[2] = {};
  if (!parse_pair(value, "dl_device is None or a tuple of ints (type, number)", wanted))
    return false;
  const DLDevice asked = {static_cast<DLDeviceType>(wanted[0]), static_cast<int32_t>(wanted[1])};
  const bool fits = asked.device_type == wanted[0] && asked.device_id == wanted[1];
  bool known = same_device(asked, {kDLCPU, 0}) || same_device(asked, *device);
  if (fits && host_memory(asked) && !known) {
    DLDevice announced;
    if (!announced_device(tensor, &announced)) return false;
    if (same_device(asked, announced)) return true;
  }
  if (!fits || wanted[1] < 0 || (host_memory(asked) && !known)) {
    const Ref text = in_words(value);
    if (text) {
      PyErr_Format(PyExc_BufferError,
                   "dl_device=%U is no device that candle exports to; the host is (1, 0)",
                   text.get());
    }
    return false;
  }
  *device = asked;
  return true;
}

bool parse(PyObject* const* args, Py_ssize_t nargs, PyObject* names, const Tensor* tensor,
           Asked* asked) {
  if (nargs != 0) {
    PyErr_SetString(PyExc_TypeError, "__dlpack__() takes keyword arguments only");
    return false;
  }
  const Names& n = state.names;
  PyObject* const accepted[] = {n.max_version, n.copy, n.dl_device, n.stream};
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); i++) {
    switch (keyword_index("__dlpack__", PyTuple_GET_ITEM(names, i), accepted, 4)) {
      case 0:
        if (!parse_max_version(args[i], asked)) return false;
        break;
      case 1:
        if (!parse_copy(args[i], &asked->copy)) return false;
        break;
      case 2:
        if (!parse_dl_device(args[i], tensor, &asked->device)) return false;
        break;
      case 3:
        asked->stream = args[i];
        break;
      default:
        return false;
    }
  }
  return true;
}

/// What a capsule can say: no negative strides, and in a legacy one nothing of read-only or padded
/// elements.
constexpr Demand capsule_demand(bool versioned) {
  Demand demand;
  demand.consumer = versioned ? "a consumer of DLPack" : "a consumer of legacy DLPack capsules";
  demand.route = versioned ? Route::dlpack_versioned : Route::dlpack_legacy;
  demand.negative_strides = false;
  demand.host_only = false;
  demand.read_only = versioned;
  demand.padded = versioned;
  return demand;
}
constexpr Demand versioned_demand = capsule_demand(true);
constexpr Demand legacy_demand = capsule_demand(false);

/// That sub-byte elements lie several to a byte stands in DLPack since 1.1. A consumer of 1.0
/// counts at least a byte each (mpi4py does), and would read and write behind packed ones.
constexpr Demand one_a_byte_demand = [] {
  Demand demand = capsule_demand(true);
  demand.consumer = "a consumer of DLPack 1.0";
  demand.packed = false;
  return demand;
}();

/// What is different where memory is on a device, or is to come onto one. `ordered`: the consumer's
/// stream is to wait.
bool prepare_device_export(Tensor* tensor, const Asked& asked, Demand* demand, bool* ordered) {
  demand->somewhere = !same_device(asked.device, tensor->device);
  demand->device = asked.device;
  demand->host_only = false;
  DeviceMemory* block = tensor->owner.device_memory();
  if (block != nullptr && block->managed() && host_memory(asked.device) &&
      asked.copy != CopyMode::always) {
    demand->somewhere = false;  // the host can read it, once it is written
    return block->wait();
  }
  cuda::Stream later;
  if (tensor->device.device_type == kDLCUDA || asked.device.device_type == kDLCUDA) {
    if (!parse_consumer_stream(asked.stream, &later, ordered)) return false;
    if (*ordered) demand->stream = later;
    *ordered = *ordered && cuda_memory(asked.device);
  } else {
    *ordered = true;
  }
  return true;
}

/// Whether `stream=` may be said of host memory. Consumers of pinned memory may pass a stream,
/// which means nothing. False with an error set.
bool takes_stream(const Tensor* tensor, PyObject* stream) {
  if (tensor->device.device_type != kDLCPU || stream == Py_None) return true;
  DLDevice announced;
  return announced_device(tensor, &announced) &&
         (announced.device_type != kDLCPU || parse_host_stream(stream));
}

const Demand* demand_of(const Asked& asked) {
  return asked.one_a_byte ? &one_a_byte_demand : &demand_of_capsule(asked.versioned);
}

}  // namespace

DLManagedTensorVersioned* export_versioned(Tensor* tensor, uint64_t flags) noexcept {
  auto* managed = export_tensor<DLManagedTensorVersioned>(tensor);
  if (managed == nullptr) return nullptr;
  managed->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  if (tensor->read_only) flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
  if (tensor->padded) flags |= DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
  managed->flags = flags;
  return managed;
}

const Demand& demand_of_capsule(bool versioned) noexcept {
  return versioned ? versioned_demand : legacy_demand;
}

namespace {

/// The capsule that was asked for, of whatever memory.
[[gnu::noinline]] PyObject* export_asked(Tensor* tensor, Asked asked) {
  const Demand* demand = demand_of(asked);
  std::optional<Demand> on_device;
  bool ordered = false;
  if (!host_memory(tensor->device) || !host_memory(asked.device)) {
    demand = &on_device.emplace(*demand);
    if (!prepare_device_export(tensor, asked, &*on_device, &ordered)) return nullptr;
  } else if (asked.stream != nullptr && !takes_stream(tensor, asked.stream)) {
    return nullptr;
  }
  Decision decision;
  const Ref meant = Ref::steal(conform(tensor, *demand, asked.copy, &decision));
  if (!meant) return nullptr;
  auto* fit = reinterpret_cast<Tensor*>(meant.get());
  const bool copied = decision.action == Action::copy;
  if (copied) asked.device = fit->device;
  // A copy was queued on the consumer's stream itself.
  if (ordered && !copied && !order_for(fit, asked.stream, on_device->stream)) return nullptr;
  if (!asked.versioned) {
    auto* managed = export_tensor<DLManagedTensor>(fit);
    if (managed != nullptr) managed->dl_tensor.device = asked.device;
    return capsule_of(managed);
  }
  auto* managed = export_versioned(fit, copied ? DLPACK_FLAG_BITMASK_IS_COPIED : 0);
  if (managed != nullptr) managed->dl_tensor.device = asked.device;
  return capsule_of(managed);
}

/// The common case, in which there is nothing to decide: memory of the host that goes out as it is.
bool shares_on_host(const Tensor* tensor, const Asked& asked) {
  return asked.stream == nullptr && asked.copy != CopyMode::always &&
         same_device(asked.device, tensor->device) &&
         plainly_shares(source_of(tensor), *demand_of(asked)) && !watched();
}

}  // namespace

PyObject* dlpack(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  auto* tensor = reinterpret_cast<Tensor*>(self);
  Asked asked{.device = tensor->device};
  if (!parse(args, nargs, names, tensor, &asked)) return nullptr;
  if (!shares_on_host(tensor, asked)) return export_asked(tensor, asked);
  return asked.versioned ? capsule_of(export_versioned(tensor, 0))
                         : capsule_of(export_tensor<DLManagedTensor>(tensor));
}

PyObject* dlpack_device(PyObject* self, PyObject*) {
  DLDevice device;
  if (!announced_device(reinterpret_cast<Tensor*>(self), &device)) return nullptr;
  if (device.device_type == kDLCPU && device.device_id == 0) return Py_NewRef(state.cpu_device);
  return Py_BuildValue("(ii)", static_cast<int>(device.device_type),
                       static_cast<int>(device.device_id));
}

PyObject* legacy_capsule(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs < 1 || nargs > 2) {
    PyErr_SetString(PyExc_TypeError, "legacy_capsule(t, stream=None)");
    return nullptr;
  }
  PyObject* object = args[0];
  Tensor* tensor = as_tensor(object);
  if (tensor == nullptr) {
    PyErr_Format(PyExc_TypeError, "%s is no Tensor", Py_TYPE(object)->tp_name);
    return nullptr;
  }
  Demand demand = legacy_demand;
  demand.read_only = true;
  Decision decision;
  const Quiet told;  // its caller has conformed the tensor, by a Demand of its own
  const Ref meant = Ref::steal(conform(tensor, demand, CopyMode::never, &decision));
  if (!meant) return nullptr;
  PyObject* stream = nargs == 2 ? args[1] : Py_None;
  cuda::Stream later = cuda::legacy_stream;
  bool ordered = true;
  if (cuda_memory(tensor->device) && !parse_consumer_stream(stream, &later, &ordered)) {
    return nullptr;
  }
  if (ordered && !order_for(tensor, stream, later)) return nullptr;
  auto* managed = export_tensor<DLManagedTensor>(reinterpret_cast<Tensor*>(meant.get()));
  if (managed != nullptr && host_memory(managed->dl_tensor.device)) {
    managed->dl_tensor.device = {kDLCPU, 0};
  }
  return capsule_of(managed);
}

}  // namespace candle
