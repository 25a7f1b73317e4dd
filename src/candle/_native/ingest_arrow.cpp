// The Arrow routes in: what a producer gave becomes a tensor, one of each chunk, or a tensor and
// its mask.
#include <memory>

#include "arrow_gather.h"
#include "copying.h"
#include "device_memory.h"
#include "elements.h"
#include "ingest.h"
#include "tensor.h"

namespace candle {

namespace {

bool readable_parts(const Arrival& arrival) {
  if (host_memory(arrival.device)) return true;
  PyErr_Format(PyExc_BufferError,
               "%s has its elements in parts on a device, where candle puts none together; take "
               "them one by one: chunks=\"list\", column=0",
               arrival.ingest.producer());
  return false;
}

/// The tensor of some chunks, or a pair of it and its mask.
PyObject* tensor_of(Arrival* arrival, int64_t from, int64_t to) {
  Gathering gathering(arrival, from, to);
  if (!gathering.measure()) return nullptr;
  const Ingest& ingest = arrival->ingest;
  const Request& request = ingest.request;
  const bool masked = arrival->options.nulls == ArrowOptions::NullsAs::mask;
  Ref mask;
  if (masked) {
    mask = gathering.mask();
    if (!mask) return nullptr;
  }
  Parts parts;
  Source source = gathering.source(&parts);
  Ref result;
  if (source.reasons == 0) {
    const int64_t only = gathering.only_chunk();
    std::byte* nothing = nullptr;
    Owner owner = only >= 0 ? std::move(arrival->chunks[only]) : Owner::allocate(0, 1, &nothing);
    if (!owner) return PyErr_NoMemory();
    if (!host_memory(source.device)) {
      Lending lending(&source);
      lending.origin.stream = arrival->pending.stream;
      if (!DeviceMemory::lend(source, &owner, std::move(lending))) return nullptr;
    }
    result = Ref::steal(finish(ingest, source, std::move(owner)));
  } else {
    if (!readable_parts(*arrival)) return nullptr;
    if (arrival->options.nulls == ArrowOptions::NullsAs::fill &&
        !gathering.take_fill(request.dtype == unknown_dtype ? source.dtype : request.dtype)) {
      return nullptr;
    }
    const Ingest parted{ingest.type, ingest.x, request, ingest.given, &gathering};
    result = Ref::steal(finish(parted, source, Owner()));
  }
  if (!result || !masked) return result.release();
  return PyTuple_Pack(2, result.get(), mask.get());
}

PyObject* result_of(Arrival* arrival) {
  const int64_t count = arrival->chunks.size();
  if (!arrival->options.list) return tensor_of(arrival, 0, count);
  Ref list = Ref::steal(PyList_New(count));
  for (int64_t i = 0; list && i < count; i++) {
    PyObject* one = tensor_of(arrival, i, i + 1);
    if (one == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), i, one);
  }
  return list.release();
}

/// The value of a keyword that is a word; -1 with an error set where it is none of them.
int one_of(const char* keyword, PyObject* value, const char* first, const char* second) {
  if (PyUnicode_Check(value)) {
    if (PyUnicode_CompareWithASCIIString(value, first) == 0) return 0;
    if (PyUnicode_CompareWithASCIIString(value, second) == 0) return 1;
  }
  PyErr_Format(PyUnicode_Check(value) ? PyExc_ValueError : PyExc_TypeError,
               "%s is \"%s\" or \"%s\", not %R", keyword, first, second, value);
  return -1;
}

/// A number of another library as one of Python's; what is none, or fails to be, as it is.
Ref as_number(PyObject* value) {
  PyObject* number =
      PyIndex_Check(value) ? PyNumber_Index(value)
      : Py_TYPE(value)->tp_as_number != nullptr && Py_TYPE(value)->tp_as_number->nb_float != nullptr
          ? PyNumber_Float(value)
          : nullptr;
  PyErr_Clear();
  return number == nullptr ? Ref::borrow(value) : Ref::steal(number);
}

/// `kept` holds the number.
bool parse_nulls(PyObject* value, ArrowOptions* options, Ref* kept) {
  if (PyUnicode_Check(value)) {
    const int mode = one_of("nulls", value, "error", "mask");
    options->nulls = mode == 1 ? ArrowOptions::NullsAs::mask : ArrowOptions::NullsAs::error;
    return mode >= 0;
  }
  Scalar scalar;
  bool is_number;
  if (!scalar_of(value, &scalar, &is_number)) return false;
  *kept = is_number ? Ref::borrow(value) : as_number(value);
  if (!is_number && !scalar_of(kept->get(), &scalar, &is_number)) return false;
  if (!is_number) {
    PyErr_Format(PyExc_TypeError, "nulls is \"error\", \"mask\" or a number to fill in, not %R",
                 value);
    return false;
  }
  options->nulls = ArrowOptions::NullsAs::fill;
  options->fill = kept->get();
  return true;
}

bool parse_column(PyObject* value, ArrowOptions* options) {
  if (value == Py_None) return true;
  options->column = value;
  if (PyUnicode_Check(value) || (PyLong_Check(value) && !PyBool_Check(value))) return true;
  PyErr_Format(PyExc_TypeError, "column is a name or a number, not %R", value);
  return false;
}

/// Whether what was given is capsules, and no object that has the protocol; then they are taken.
bool is_capsules(PyObject* x) {
  return PyTuple_CheckExact(x) && PyTuple_GET_SIZE(x) == 2 &&
         PyCapsule_CheckExact(PyTuple_GET_ITEM(x, 0)) &&
         PyCapsule_CheckExact(PyTuple_GET_ITEM(x, 1));
}

bool take(PyObject* x, Arrival* arrival) {
  if (is_capsules(x)) return take_arrays(PyTuple_GET_ITEM(x, 0), PyTuple_GET_ITEM(x, 1), arrival);
  if (PyCapsule_CheckExact(x)) return take_stream(x, arrival);
  bool applies;
  if (!ask_arrow(x, arrival, &applies)) {
    if (!applies) blame_producer(arrival->ingest.producer());
    return false;
  }
  if (applies) return true;
  PyErr_Format(PyExc_TypeError,
               "from_arrow takes an object with __arrow_c_array__ or __arrow_c_stream__, or their "
               "capsules, and %s has none; candle.asarray() takes anything",
               Py_TYPE(x)->tp_name);
  return false;
}

}  // namespace

const char from_arrow_doc[] =
    "from_arrow($module, x, /, *, nulls=\"error\", chunks=\"copy\", times=\"error\", column=None, "
    "dtype=None, device=None, copy=None)\n--\n\n"
    "A read-only Tensor over the memory of an Arrow column (Arrow C data interface, PyCapsule "
    "protocol).\n\n"
    "Takes arrays, chunked arrays and tables of pyarrow, polars, pandas, DuckDB, nanoarrow and "
    "whatever else has\n"
    "``__arrow_c_array__``, ``__arrow_c_stream__`` or their device variants; a tuple of two raw "
    "capsules, or one of a\n"
    "stream, which are consumed. Needs no pyarrow.\n\n"
    "Numbers become a tensor with one axis. Lists add an axis: those of fixed size, fixed-shape "
    "tensors (all their\n"
    "axes, as permuted), and variable lists if all have one length, which is looked at. A table "
    "becomes one of rows\n"
    "and columns. Memory is shared where the elements are one block; several chunks, several "
    "columns, and booleans\n"
    "stored as bits are put together by one copy.\n\n"
    "Parameters\n----------\n"
    "x\n    What has Arrow data.\n"
    "nulls\n    \"error\": refuse nulls. \"mask\": give a tuple of the values (anything where "
    "null) and a mask of the\n    same shape, true where an element or a list above it is null. A "
    "number: give a copy with it in their\n    place, if there are any.\n"
    "chunks\n    \"copy\": put chunks together. \"list\": give a list, with a tensor (or a tuple) "
    "for each chunk.\n"
    "times\n    \"error\": refuse dates, times and durations. \"integers\": take what they are "
    "stored as.\n"
    "column\n    Of a table: the name or number of the one column to take, which then is no "
    "table.\n"
    "dtype, device, copy\n    As of `asarray`.\n\n"
    "Raises\n------\n"
    "CopyError\n    With ``copy=False``, where the memory cannot be shared.\n"
    "BufferError\n    For nulls, lists of different lengths, and elements that are no numbers; "
    "where "
    "the producer fails, or what\n    it exports is impossible.\n"
    "TypeError, ValueError, IndexError\n    For wrong arguments.";

bool ingest_arrow(const Ingest& ingest, PyObject** result) noexcept {
  static const ArrowOptions plain;
  *result = nullptr;
  Arrival arrival(ingest, plain);
  bool applies;
  if (!ask_arrow(ingest.x, &arrival, &applies)) {
    if (applies || !PyErr_ExceptionMatches(PyExc_ImportError)) return true;
    PyErr_Clear();  // the package that would do it is not there
    return false;
  }
  if (applies) *result = result_of(&arrival);
  return applies;
}

PyObject* from_arrow(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  if (nargs != 1) {
    PyErr_Format(PyExc_TypeError, "from_arrow() takes exactly one positional argument (%zd given)",
                 nargs);
    return nullptr;
  }
  const Names& n = state.names;
  PyObject* const accepted[] = {n.nulls, n.chunks, n.times, n.column, n.dtype, n.device, n.copy};
  Request request;
  ArrowOptions options;
  Ref fill;
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); i++) {
    PyObject* value = args[1 + i];
    int word = 0;
    bool good = true;
    switch (keyword_index("from_arrow", PyTuple_GET_ITEM(names, i), accepted, 7)) {
      case 0:
        good = parse_nulls(value, &options, &fill);
        break;
      case 1:
        word = one_of("chunks", value, "copy", "list");
        options.list = word == 1;
        break;
      case 2:
        word = one_of("times", value, "error", "integers");
        options.times = word == 1;
        break;
      case 3:
        good = parse_column(value, &options);
        break;
      case 4:
        good = parse_dtype(value, &request.dtype);
        break;
      case 5:
        good = parse_device(value, &request);
        break;
      case 6:
        good = parse_copy(value, &request.copy);
        break;
      default:
        return nullptr;
    }
    if (!good || word < 0) return nullptr;
  }
  const Ingest ingest{state.tensor_type, args[0], request};
  Arrival arrival(ingest, options);
  return take(args[0], &arrival) ? result_of(&arrival) : nullptr;
}

}  // namespace candle
