// The ways out: DLPack capsules, the C exchange table, Arrow, numpy, torch, buffers.
#pragma once

#include <dlpack/dlpack.h>

#include "pyref.h"

namespace candle {

struct Demand;
struct Tensor;

/// What capsules and doors take, for the moves through them and for plans of those. nullptr with an
/// error set: numpy has no such dtype, torch is not there.
const Demand& demand_of_capsule(bool versioned) noexcept;
const Demand* demand_of_numpy(const Tensor* tensor) noexcept;
const Demand* demand_of_torch() noexcept;
const Demand& demand_of_arrow() noexcept;

/// A fresh managed struct over a tensor's memory, with its own shape and strides. The tensor meets
/// what a capsule can say. nullptr with a MemoryError set.
DLManagedTensorVersioned* export_versioned(Tensor* tensor, uint64_t flags) noexcept;

PyObject* dlpack(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names);
PyObject* dlpack_device(PyObject* self, PyObject*);
PyObject* to_torch(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names);
/// `copy=False`, and nobody's word on read-only memory.
PyObject* share_as_numpy(Tensor* tensor) noexcept;
PyObject* share_as_torch(Tensor* tensor) noexcept;
/// torch(): `copy=None`.
PyObject* give_to_torch(Tensor* tensor) noexcept;
/// Torch's protocol for functions that are given a type which is not torch's: calls the function
/// with torch's tensors over the same memory.
PyObject* torch_function(PyObject* type, PyObject* args, PyObject* kwargs);
PyObject* to_numpy(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names);
PyObject* array(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names);
PyObject* arrow_c_array(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names);
PyObject* arrow_c_device_array(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                               PyObject* names);
PyObject* arrow_c_schema(PyObject* self, PyObject*);
/// `_core.arrow_capsules(t, requested_schema, lists, copy)`: what `Tensor.arrow` hands over.
PyObject* arrow_capsules(PyObject* module, PyObject* args);
PyObject* get_array_interface(PyObject* self, void*);
PyObject* get_cuda_array_interface(PyObject* self, void*);
PyObject* to_memoryview(PyObject* self, PyObject*);
/// The tensor behind what memoryview() looks at; nullptr, no error, of anything else. Borrowed.
PyObject* tensor_of_buffer(PyObject* object) noexcept;

/// `_core.legacy_capsule(t, stream=None)`: shares read-only memory too, for a consumer that never
/// writes.
PyObject* legacy_capsule(PyObject* module, PyObject* const* args, Py_ssize_t nargs);

/// Puts `__dlpack_c_exchange_api__` on the Tensor type; -1 with an error set.
int init_exchange_table() noexcept;
/// What was loaded of other frameworks is asked for again when it is next needed.
void forget_doors() noexcept;
/// Makes the type behind memoryview(); -1 with an error set.
int init_buffer_type(PyObject* module) noexcept;

}  // namespace candle
