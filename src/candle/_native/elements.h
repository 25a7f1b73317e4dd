// Elements as Python numbers, and writing into tensors.
#pragma once

#include "cast.h"
#include "tensor.h"

namespace candle {

/// A Python bool, int, float or complex as a Scalar. `is_number` is false, and no error set, for
/// anything else; the result is false with an error set. An int beyond 64 bits becomes a real
/// number that rounds to any dtype but float64 as the int would; `store` rounds to that itself.
bool scalar_of(PyObject* value, Scalar* scalar, bool* is_number) noexcept;

/// The Python number of a Scalar; nullptr with an error set.
PyObject* number_of(const Scalar& scalar) noexcept;

/// Whether a number is an int beyond 64 bits.
inline bool is_large(const Scalar& scalar, PyObject* value) {
  return scalar.kind == Scalar::Kind::real && PyLong_Check(value);
}

/// Sets the ValueError for an int that is wanted as int64, no dtype having been named.
void refuse_large(PyObject* value) noexcept;

/// Whether a Python number fits the range of a dtype: of an integer one, a float by what is left
/// once its fraction is cut; any fits the others. False with a ValueError set.
bool fits(const Scalar& scalar, DTypeId dtype, PyObject* value) noexcept;

/// Writes one element `bit` bits after `data`; false with an error set.
bool store(std::byte* data, int64_t bit, DTypeId dtype, const Scalar& scalar,
           PyObject* value) noexcept;

/// The dtype a Python number gets when nobody asks for another.
DTypeId default_dtype(const Scalar& scalar) noexcept;

PyObject* to_list(PyObject* self, PyObject*);
PyObject* item(PyObject* self, PyObject*);

/// `dst[...] = value`: a number, or anything that can be ingested and broadcast. False with an
/// error set.
bool assign(Tensor* dst, PyObject* value) noexcept;

}  // namespace candle
