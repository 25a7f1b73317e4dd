// The numpy route: an ndarray's own C struct, read field by field.
#include "ingest.h"
#include "layout.h"
#include "move.h"
#include "numpy_api.h"
#include "validate.h"

namespace candle {

namespace {

/// numpy's own types by their number; bool is 0.
constexpr DTypeId integer(size_t bytes, bool is_signed) {
  return dtype_id(
      {static_cast<uint8_t>(is_signed ? kDLInt : kDLUInt), static_cast<uint8_t>(8 * bytes), 1});
}

constexpr DTypeId builtin_dtype(int number) {
  switch (number) {
    case NPY_BOOL:
      return id_bool;
    case NPY_BYTE:
      return integer(1, true);
    case NPY_UBYTE:
      return integer(1, false);
    case NPY_SHORT:
      return integer(sizeof(short), true);
    case NPY_USHORT:
      return integer(sizeof(short), false);
    case NPY_INT:
      return integer(sizeof(int), true);
    case NPY_UINT:
      return integer(sizeof(int), false);
    case NPY_LONG:
      return integer(sizeof(long), true);
    case NPY_ULONG:
      return integer(sizeof(long), false);
    case NPY_LONGLONG:
      return integer(sizeof(long long), true);
    case NPY_ULONGLONG:
      return integer(sizeof(long long), false);
    case NPY_HALF:
      return dtype_named("float16");
    case NPY_FLOAT:
      return id_float32;
    case NPY_DOUBLE:
      return dtype_named("float64");
    case NPY_CFLOAT:
      return id_complex64;
    case NPY_CDOUBLE:
      return id_complex128;
    default:
      return unknown_dtype;
  }
}

struct BuiltinTable {
  DTypeId of[NPY_HALF + 1];
};

constexpr BuiltinTable make_builtin_table() {
  BuiltinTable table{};
  for (int i = 0; i <= NPY_HALF; i++) table.of[i] = builtin_dtype(i);
  return table;
}

constexpr BuiltinTable builtin = make_builtin_table();

/// Types of other packages (ml_dtypes) by dtype, learnt when first met; each is set once, and kept.
std::atomic<PyTypeObject*> learnt[dtype_count];

/// Asks frameworks/numpy.py, which refuses with the remedy what candle cannot hold.
DTypeId learn(PyArray_Descr* descr) {
  const Ref answer =
      Ref::steal(PyObject_CallOneArg(state.hooks.numpy_in, reinterpret_cast<PyObject*>(descr)));
  if (!answer) return unknown_dtype;
  const long id = PyLong_AsLong(answer.get());
  if (id < 0 || id >= dtype_count) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_BufferError, "candle has no dtype number %ld", id);
    return unknown_dtype;
  }
  PyTypeObject* none = nullptr;
  if (descr->type_num >= NPY_USERDEF && learnt[id].compare_exchange_strong(none, descr->typeobj)) {
    Ref held = Ref::borrow(reinterpret_cast<PyObject*>(descr->typeobj));
    (void)held.release();
  }
  return static_cast<DTypeId>(id);
}

/// unknown_dtype with an error set where candle has none.
DTypeId dtype_of(PyArray_Descr* descr) {
  const int number = descr->type_num;
  if (number >= 0 && number <= NPY_HALF && builtin.of[number] != unknown_dtype)
    return builtin.of[number];
  for (int id = 0; id < dtype_count; id++) {
    if (learnt[id].load(std::memory_order_acquire) == descr->typeobj)
      return static_cast<DTypeId>(id);
  }
  return learn(descr);
}

[[gnu::always_inline]] inline PyObject* take(const Ingest& ingest, ReasonSet found, bool read_only,
                                             const char* copied) {
  auto* array = reinterpret_cast<PyArrayObject*>(ingest.x);
  PyArray_Descr* descr = PyArray_DESCR(array);
  const DTypeId dtype = dtype_of(descr);
  if (dtype == unknown_dtype) return nullptr;
  static_assert(sizeof(npy_intp) == sizeof(int64_t));
  const int bits = dtype_table[dtype].dlpack.bits;
  const int32_t ndim = PyArray_NDIM(array);
  const auto* shape = reinterpret_cast<const int64_t*>(PyArray_DIMS(array));
  int64_t size = 1;
  for (int32_t i = 0; i < ndim; i++) size *= shape[i];
  const Source source{
      .data = static_cast<std::byte*>(PyArray_DATA(array)),
      .size = size,
      .shape = shape,
      .strides = reinterpret_cast<const int64_t*>(PyArray_STRIDES(array)),
      .unit = 8,
      .ndim = ndim,
      .device = {kDLCPU, 0},
      .dtype = dtype,
      .route = Route::numpy,
      .read_only = read_only || !PyArray_ISWRITEABLE(array),
      .swapped = !PyArray_ISNBO(descr->byteorder) && bits > 8,  // bytes have no order
      .padded = bits < 8,
      .fresh = copied != nullptr,
      .reasons = found,
      .copied = copied,
  };
  return finish(ingest, source, Owner::object(Ref::borrow(ingest.x)));
}

}  // namespace

PyObject* ingest_numpy(const Ingest& ingest) noexcept { return take(ingest, 0, false, nullptr); }

PyObject* ingest_array_given(const Ingest& ingest, ReasonSet found, bool read_only,
                             const char* copied) noexcept {
  const TypeRecord* record = record_of(Py_TYPE(ingest.x));
  if (record == nullptr) return nullptr;
  if (record->kind == TypeKind::numpy) return take(ingest, found, read_only, copied);
  PyErr_Format(PyExc_BufferError, "%s gives %s in place of an ndarray", ingest.producer(),
               Py_TYPE(ingest.x)->tp_name);
  return nullptr;
}

}  // namespace candle
