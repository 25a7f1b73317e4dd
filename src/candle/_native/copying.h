// Copies of and into tensors: the copy engine with Python's errors, and the GIL released for long
// ones.
#pragma once

#include "copy.h"
#include "move.h"
#include "tensor.h"

namespace candle {

/// Below this a copy takes less time than letting go of the GIL and back.
inline constexpr int64_t gil_free_bytes = 1 << 16;

/// Strides of a source in bits, as the copy engine counts.
void bit_strides(const Source& source, int64_t* strides) noexcept;

/// Runs the engine; false with an error set. `nbytes` says how long it will take.
bool run_copy(const Side& dst, const Side& src, int32_t ndim, const int64_t* shape,
              int64_t nbytes) noexcept;

/// Whether a tensor may be written through; false with a ValueError set.
bool writable(const Tensor* dst) noexcept;

/// What it takes to write a source, broadcast and cast, into a tensor that may be written. False
/// with a ValueError set where the shapes do not fit.
bool decide_write(const Tensor* dst, const Source& source, Demand* demand,
                  Decision* decision) noexcept;

/// Does it. The decision has been recorded, and no signs are to be turned.
bool write_source(Tensor* dst, const Source& source) noexcept;

/// Copies `src`, broadcast and cast, into `dst`. False with an error set: ValueError for memory
/// that may not be written.
bool copy_into(Tensor* dst, Tensor* src) noexcept;

/// Raises what `copy_into` would refuse, and copies nothing: the two may have no memory.
bool check_copy_into(const Tensor* dst, const Tensor* src) noexcept;

/// A fresh row-major tensor with the elements of a source, cast to the Demand's dtype. The decision
/// has been recorded.
PyObject* copy_of(PyTypeObject* type, const Source& source, const Demand& demand) noexcept;

/// Whether a copy from or to a CUDA device is meant: somebody else makes those.
inline bool moves_on_devices(const Source& source, const Demand& demand) {
  return !host_memory(source.device) || (demand.somewhere && !host_memory(demand.device));
}

inline bool moves_on_devices(const Source& source, const Tensor* into) {
  return !host_memory(source.device) || !host_memory(into->device);
}

/// Has a framework write a tensor, broadcast and cast, into another. The decision has been
/// recorded.
bool device_write(Tensor* dst, Tensor* src) noexcept;

/// A row-major tensor on a CUDA device, uninitialised; nullptr with an error set.
PyObject* device_empty(DTypeId dtype, int32_t ndim, const int64_t* shape, DLDevice device) noexcept;

/// A copy that a framework makes (candle.cuda), in row-major order. The decision has been recorded.
PyObject* device_copy(Tensor* tensor, const Demand& demand) noexcept;

/// The tensor itself if it meets the demand, else a copy that does: the one step of every export.
/// `decision` says which, and why. nullptr with an error set.
PyObject* conform(Tensor* tensor, const Demand& demand, CopyMode mode, Decision* decision) noexcept;

/// `conform` as a dry run. False with the exception of a refused move set.
bool conform_dry(const Tensor* tensor, const Demand& demand, CopyMode mode, DryRun* dry) noexcept;

}  // namespace candle
