// The C exchange table of candle.Tensor, and the door to torch through torch's own.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "copying.h"
#include "demand.h"
#include "device_memory.h"
#include "export.h"
#include "ingest.h"
#include "move.h"
#include "platform.h"
#include "tensor.h"
#include "validate.h"

namespace candle {

namespace {

Tensor* expect_tensor(void* object) {
  Tensor* tensor = as_tensor(static_cast<PyObject*>(object));
  if (tensor == nullptr) {
    PyErr_Format(PyExc_TypeError, "candle's exchange table takes a candle.Tensor, not %s",
                 Py_TYPE(static_cast<PyObject*>(object))->tp_name);
  }
  return tensor;
}

constexpr Demand table_demand = [] {
  Demand demand;
  demand.consumer = "a consumer of DLPack";
  demand.route = Route::exchange;
  demand.negative_strides = false;
  demand.host_only = false;
  return demand;
}();

/// A bare DLTensor has no flag for padded elements. It is borrowed for a call, so that read-only
/// memory is lent as torch lends.
constexpr Demand borrowed_demand = [] {
  Demand demand = table_demand;
  demand.padded = false;
  return demand;
}();

/// The stream that work is queued on now on a CUDA device: whose, candle.cuda decides. False with
/// an error set.
bool work_stream(DLDevice device, Pending* pending) {
  if (state.hooks.work_stream == nullptr) return true;
  const Ref stream = Ref::steal(
      PyObject_CallFunction(state.hooks.work_stream, "i", static_cast<int>(device.device_id)));
  if (stream && (stream.get() == Py_None || parse_stream_object(stream.get(), pending))) {
    return true;
  }
  blame_producer("the framework in use", naming_streams);
  return false;
}

/// The table's consumers queue their work on `current_work_stream`, so that it has to come after
/// what may be pending. That is the default stream on all devices but CUDA's.
bool order_for_work_stream(Tensor* tensor) {
  Pending now;
  if (cuda_memory(tensor->device) && !work_stream(tensor->device, &now)) return false;
  return order_for(tensor, Py_None, now.stream == 0 ? cuda::legacy_stream : now.stream);
}

// --- the slots of the table; every one but the allocator is called with the GIL ---

int from_py_object(void* object, DLManagedTensorVersioned** out) {
  Tensor* tensor = expect_tensor(object);
  if (tensor == nullptr) return -1;
  Decision decision;
  const Ref meant = Ref::steal(conform(tensor, table_demand, CopyMode::if_needed, &decision));
  if (!meant || !order_for_work_stream(reinterpret_cast<Tensor*>(meant.get()))) return -1;
  const uint64_t flags = decision.action == Action::copy ? DLPACK_FLAG_BITMASK_IS_COPIED : 0;
  *out = export_versioned(reinterpret_cast<Tensor*>(meant.get()), flags);
  return *out == nullptr ? -1 : 0;
}

/// Steals the managed tensor: on failure its deleter has run.
int to_py_object(DLManagedTensorVersioned* managed, void** out) {
  if (managed->version.major != DLPACK_MAJOR_VERSION) {
    PyErr_Format(PyExc_BufferError,
                 "a managed tensor of DLPack version %u.%u, and candle reads version %d",
                 managed->version.major, managed->version.minor, DLPACK_MAJOR_VERSION);
    if (managed->deleter != nullptr) managed->deleter(managed);
    return -1;
  }
  Owner owner = Owner::versioned(managed);
  Source source;
  int64_t spare[max_ndim];
  Fact wrong;
  if (!validate(managed->dl_tensor, managed->flags, &source, spare, &wrong)) {
    PyErr_Format(PyExc_BufferError, "the managed tensor is impossible: %s", wrong.text);
    return -1;
  }
  source.route = Route::exchange;
  if (!host_memory(source.device)) {  // written on the stream that the table names
    Lending lending(&source);
    if (cuda_memory(source.device)) {
      if (!work_stream(source.device, &lending.origin)) return -1;
      if (lending.origin.stream == 0) lending.origin.stream = cuda::legacy_stream;
    }
    if (!DeviceMemory::lend(source, &owner, std::move(lending))) return -1;
  }
  const Request plain;
  *out = finish({state.tensor_type, nullptr, plain}, source, std::move(owner));
  return *out == nullptr ? -1 : 0;
}

/// Borrowed: the extents are the Tensor's own. Nothing is copied, so what needs a copy is refused.
int dltensor_from_py_object(void* object, DLTensor* out) {
  Tensor* tensor = expect_tensor(object);
  if (tensor == nullptr) return -1;
  Decision decision;
  const Ref same = Ref::steal(conform(tensor, borrowed_demand, CopyMode::never, &decision));
  if (!same || !order_for_work_stream(tensor)) return -1;
  *out = {
      .data = tensor->size == 0 ? nullptr : tensor->data,
      .device = tensor->device,
      .ndim = tensor->ndim(),
      .dtype = tensor->row().dlpack,
      .shape = tensor->shape(),
      .strides = tensor->strides(),
      .byte_offset = 0,
  };
  return 0;
}

struct Block {
  DLManagedTensorVersioned managed;
  void* data;
};

void delete_block(DLManagedTensorVersioned* managed) {
  auto* block = reinterpret_cast<Block*>(managed);
  platform::free_aligned(block->data);
  std::free(block);
  live.exports.add(-1);
}

/// Needs no GIL and no Python: errors go through SetError alone.
int allocate_managed(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_ctx,
                     void (*SetError)(void* error_ctx, const char* kind, const char* message)) {
  Source source;
  int64_t spare[max_ndim];
  Fact wrong;
  DLTensor described = *prototype;
  std::byte somewhere;
  described.data = &somewhere;  // only shape, dtype and device of a prototype count
  described.strides = nullptr;
  described.byte_offset = 0;
  if (!validate(described, 0, &source, spare, &wrong)) {
    SetError(error_ctx, "BufferError", wrong.text);
    return -1;
  }
  if (source.device.device_type != kDLCPU) {
    SetError(error_ctx, "BufferError", "this version of candle allocates host memory only");
    return -1;
  }
  const auto ndim = static_cast<size_t>(source.ndim);
  const auto bytes = static_cast<size_t>(bytes_of(source.size, source.dtype, false));
  auto* block = static_cast<Block*>(std::malloc(sizeof(Block) + 2 * ndim * sizeof(int64_t)));
  void* data = block != nullptr && bytes > 0 ? platform::allocate_aligned(bytes, 256) : nullptr;
  if (block == nullptr || (bytes > 0 && data == nullptr)) {
    std::free(block);
    SetError(error_ctx, "MemoryError", "candle has no memory for the tensor");
    return -1;
  }
  auto* shape = reinterpret_cast<int64_t*>(block + 1);
  std::copy_n(source.shape, ndim, shape);
  compact_strides(source.ndim, shape, shape + ndim);
  block->data = data;
  block->managed = {
      .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
      .manager_ctx = block,
      .deleter = delete_block,
      .flags = 0,
      .dl_tensor = {.data = data,
                    .device = source.device,
                    .ndim = source.ndim,
                    .dtype = prototype->dtype,
                    .shape = shape,
                    .strides = shape + ndim,
                    .byte_offset = 0},
  };
  live.exports.add(1);
  *out = &block->managed;
  return 0;
}

int current_work_stream(DLDeviceType device, int32_t number, void** out) {
  *out = nullptr;
  if (device != kDLCUDA) return 0;
  Pending now;
  if (!work_stream({device, number}, &now)) return -1;
  *out = reinterpret_cast<void*>(now.stream == cuda::legacy_stream ? 0 : now.stream);
  return 0;
}

const DLPackExchangeAPI exchange_table = {
    .header = {.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, .prev_api = nullptr},
    .managed_tensor_allocator = allocate_managed,
    .managed_tensor_from_py_object_no_sync = from_py_object,
    .managed_tensor_to_py_object_no_sync = to_py_object,
    .dltensor_from_py_object_no_sync = dltensor_from_py_object,
    .current_work_stream = current_work_stream,
};

// --- torch() ---

/// A framework's own table, and what the framework takes. Loaded when first used.
struct Door {
  const DLPackExchangeAPI* table = nullptr;
  Demand demand;
  Demand on_their_word;  // the caller's, that nothing is written to read-only memory
  PyObject* on_read_only_copy =
      nullptr;  // told when memory was copied only because the framework has no read-only
  StreamSource streams;
};

/// Never destroyed: somebody may be on the way through it, and the interpreter is gone before the
/// process is.
std::atomic<Door*> torch_door{nullptr};

bool load(Door* door, const char* name) {
  const Ref answer = Ref::steal(PyObject_CallFunction(state.hooks.load_door, "s", name));
  if (!answer) return false;
  PyObject *capsule, *demand, *notice, *streams;
  if (!PyArg_ParseTuple(answer.get(), "OOOO", &capsule, &demand, &notice, &streams)) return false;
  const Demand* takes = demand_of(demand);
  if (takes == nullptr) return false;
  const DLPackExchangeAPI* table = table_in(capsule);
  if (table == nullptr || table->managed_tensor_to_py_object_no_sync == nullptr) {
    PyErr_Format(PyExc_BufferError, "the installed %s has no C exchange table of DLPack %d", name,
                 DLPACK_MAJOR_VERSION);
    return false;
  }
  // The Demand's words are those of its object, which is kept for good; the table is kept by its
  // type.
  door->demand = *takes;
  door->demand.route = Route::exchange;
  door->on_their_word = door->demand;
  door->on_their_word.read_only = true;
  door->on_read_only_copy = Py_NewRef(notice);
  Ref kept = Ref::borrow(demand);
  (void)kept.release();
  if (streams != Py_None) door->streams.ask = Ref::borrow(streams);
  if (streams == Py_None && table->current_work_stream != nullptr) door->streams.table = table;
  door->table = table;
  return true;
}

/// nullptr with an error set where there is no torch, or one that has no table.
const Door* door_of_torch() {
  Door* door = torch_door.load(std::memory_order_acquire);
  if (door != nullptr) return door;
  std::unique_ptr<Door> made(new (std::nothrow) Door);
  if (made == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  if (!load(made.get(), "torch")) return nullptr;
  // Another thread's, where one was faster.
  if (!torch_door.compare_exchange_strong(door, made.get(), std::memory_order_acq_rel)) {
    drop(made->on_read_only_copy);
    return door;
  }
  return made.release();
}

/// Makes torch's current stream wait. False with an error set.
bool order_for_torch(Tensor* tensor, const StreamSource& streams) {
  const bool rocm = tensor->device.device_type == kDLROCM;
  if (!(cuda_memory(tensor->device) || rocm) || !streams) {
    return order_for(tensor, Py_None, cuda::legacy_stream);
  }
  Pending now;
  if (!streams.current(tensor->device, &now)) {
    blame_producer("torch", naming_streams);
    return false;
  }
  const bool is_default = now.stream == cuda::legacy_stream;  // 0 on ROCm
  const Ref number = Ref::steal(PyLong_FromUnsignedLongLong(rocm && is_default ? 0 : now.stream));
  return number && order_for(tensor, number.get(), now.stream);
}

/// `promised`: the caller's word that nothing is written to read-only memory.
PyObject* through_torch(Tensor* tensor, CopyMode mode, bool promised) {
  const Door* found = door_of_torch();
  if (found == nullptr) return nullptr;
  const Door& door = *found;
  Decision decision;
  const Ref meant =
      Ref::steal(conform(tensor, promised ? door.on_their_word : door.demand, mode, &decision));
  if (!meant) return nullptr;
  if (mode == CopyMode::if_needed && (decision.reasons & bit(Reason::read_only)) != 0) {
    const Ref told = Ref::steal(PyObject_CallNoArgs(door.on_read_only_copy));
    if (!told) return nullptr;  // warnings as errors
  }
  if (!order_for_torch(reinterpret_cast<Tensor*>(meant.get()), door.streams)) return nullptr;
  const bool copied = decision.action == Action::copy;
  DLManagedTensorVersioned* managed = export_versioned(reinterpret_cast<Tensor*>(meant.get()),
                                                       copied ? DLPACK_FLAG_BITMASK_IS_COPIED : 0);
  if (managed == nullptr) return nullptr;
  // torch knows no pinned memory here; to the host it is memory like any other.
  if (host_memory(managed->dl_tensor.device)) managed->dl_tensor.device = {kDLCPU, 0};
  void* out = nullptr;
  // Whether torch has taken the struct when it fails is not told: leaking it is safe, freeing it is
  // not.
  if (door.table->managed_tensor_to_py_object_no_sync(managed, &out) != 0) {
    blame_producer("torch", "take this memory");
    return nullptr;
  }
  return static_cast<PyObject*>(out);
}

}  // namespace

const Demand* demand_of_torch() noexcept {
  const Door* door = door_of_torch();
  return door != nullptr ? &door->demand : nullptr;
}

PyObject* share_as_torch(Tensor* tensor) noexcept {
  return through_torch(tensor, CopyMode::never, false);
}

PyObject* give_to_torch(Tensor* tensor) noexcept {
  return through_torch(tensor, CopyMode::if_needed, false);
}

PyObject* to_torch(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  CopyMode mode = CopyMode::if_needed;
  if (!parse_door("torch", args, nargs, names, &mode)) return nullptr;
  return through_torch(reinterpret_cast<Tensor*>(self), mode, mode == CopyMode::never);
}

void forget_doors() noexcept { torch_door.store(nullptr, std::memory_order_release); }

int init_exchange_table() noexcept {
  const Ref capsule = Ref::steal(PyCapsule_New(const_cast<DLPackExchangeAPI*>(&exchange_table),
                                               "dlpack_exchange_api", nullptr));
  if (!capsule) return -1;
  return PyObject_SetAttr(reinterpret_cast<PyObject*>(state.tensor_type),
                          state.names.c_exchange_api, capsule.get());
}

}  // namespace candle
