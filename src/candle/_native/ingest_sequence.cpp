// Numbers, nested sequences of numbers, and sequences of tensors: the routes that have no memory to
// share.
#include <algorithm>
#include <optional>

#include "copying.h"
#include "device_memory.h"
#include "elements.h"
#include "ingest.h"
#include "layout.h"
#include "move.h"
#include "tensor.h"

namespace candle {

namespace {

bool is_sequence(PyObject* x) {
  if (PyList_Check(x) || PyTuple_Check(x) || PyRange_Check(x)) return true;
  if (PyUnicode_Check(x) || PyType_Check(x)) return false;
  return PySequence_Check(x) && !PyObject_CheckBuffer(x);
}

/// A number written in Python, as opposed to a framework's scalar that carries a dtype of its own.
bool is_plain_number(PyObject* x) {
  return PyFloat_CheckExact(x) || PyLong_Check(x) || PyComplex_CheckExact(x);
}

/// Ranks of default dtypes when numbers are mixed: the widest kind wins.
int rank_of(Scalar::Kind kind) {
  switch (kind) {
    case Scalar::Kind::boolean:
      return 0;
    case Scalar::Kind::signed_int:
    case Scalar::Kind::unsigned_int:
      return 1;
    case Scalar::Kind::real:
      return 2;
    case Scalar::Kind::complex_number:
      return 3;
  }
  Py_UNREACHABLE();
}
constexpr DTypeId dtype_of_rank[] = {id_bool, id_int64, id_float32, id_complex64};

/// Visits the items of a list or tuple. What is visited may run Python and change the list, and so
/// may other threads: that is an error.
template <typename Visit>
bool each_item(PyObject* items, Py_ssize_t count, Visit visit) {
  for (Py_ssize_t i = 0; PySequence_Fast_GET_SIZE(items) == count; i++) {
    if (i == count) return true;
    const Ref item = member_of(items, i);
    if (!item) break;
    if (!visit(item.get())) return false;
  }
  PyErr_SetString(PyExc_RuntimeError, "a sequence changed while it was read");
  return false;
}

/// A nested sequence while it is looked through: its extents, and whether its leaves are Python
/// numbers only.
struct Survey {
  int64_t shape[max_ndim];
  int32_t depth = -1;  // of the leaves; -1 until the first one is met
  int32_t known = 0;   // extents known so far
  int rank = -1;
  bool numbers_only = true;
  Ref too_large;  // an int beyond int64

  bool leaf(PyObject* x, int32_t at) {
    if (depth == -1) depth = at;
    if (depth != at || known > at) return ragged();
    Scalar scalar;
    bool is_number = is_plain_number(x);
    if (is_number && !scalar_of(x, &scalar, &is_number)) return false;
    if (!is_number) {
      numbers_only = false;
      return true;
    }
    const bool large = is_large(scalar, x);
    if (large || scalar.kind == Scalar::Kind::unsigned_int) too_large = Ref::borrow(x);
    const int found = rank_of(large ? Scalar::Kind::unsigned_int : scalar.kind);
    if (found > rank) rank = found;
    return true;
  }

  bool look(PyObject* x, int32_t at) {
    if (!is_sequence(x)) return leaf(x, at);
    if (is_tensor(x, at)) return leaf(x, at);
    if (PyErr_Occurred()) return false;
    if (at == max_ndim) {
      PyErr_Format(PyExc_ValueError,
                   "sequences are nested more than %d deep, or one contains itself", max_ndim);
      return false;
    }
    const Ref items = Ref::steal(PySequence_Fast(x, "not a sequence"));
    if (!items) return false;
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(items.get());
    if (depth != -1 && at >= depth) return ragged();
    if (at == known) {
      shape[known++] = count;
    } else if (shape[at] != count) {
      return ragged();
    }
    return each_item(items.get(), count, [this, at](PyObject* item) { return look(item, at + 1); });
  }

  /// Whether there is another way in. False with an error set where a lookup fails.
  static bool is_tensor(PyObject* x, int32_t at) {
    const TypeRecord* record = record_of(Py_TYPE(x));
    if (record == nullptr) return false;
    // The outermost is here because its framework's file knows no better; as a leaf it would come
    // here again.
    const bool known = record->kind != TypeKind::plain && at > 0;
    return known || as_tensor(x) != nullptr || speaks_protocol(x);
  }

  /// False with an error set where a lookup fails.
  static bool speaks_protocol(PyObject* x) {
    if (PyList_CheckExact(x) || PyTuple_CheckExact(x) || PyRange_Check(x)) return false;
    const Request plain;
    for (PyObject* name : {state.names.dlpack, state.names.array_interface,
                           state.names.array_struct, state.names.array}) {
      if (protocol_attribute({state.tensor_type, x, plain}, name)) return true;
      if (PyErr_Occurred()) return false;
    }
    return false;
  }

  static bool ragged() {
    PyErr_SetString(PyExc_ValueError,
                    "the sequences are ragged: items at the same depth have different lengths or "
                    "kinds; pad them, or make "
                    "one tensor of each");
    return false;
  }
};

/// Python values as the source of a move, which always builds, on `at`, and may go on from there.
/// The arrays stay the caller's.
struct Building {
  const Ingest& ingest;
  Source source;
  Demand demand;
  Decision decision;
  int64_t strides[max_ndim];
  std::optional<Recording> recording;

  Building(const Ingest& of, Route route, DTypeId dtype, int32_t ndim, const int64_t* shape,
           DLDevice at = {kDLCPU, 0})
      : ingest(of) {
    source.size = std::max<int64_t>(count_elements(ndim, shape), 0);
    source.shape = shape;
    source.strides = strides;
    source.unit = dtype_table[dtype].dlpack.bits;
    source.ndim = ndim;
    source.dtype = dtype;
    source.route = route;
    source.device = cuda_memory(at) ? at : DLDevice{kDLCPU, 0};
    source.reasons = bit(Reason::python_values);
    compact_strides(ndim, shape, strides);
    demand.host_only = false;
    demand.somewhere = ingest.request.somewhere;
    demand.device = ingest.request.device;
    decision = decide(source, demand, ingest.request.copy);
  }

  Move move() const { return {decision, source, demand, ingest.from()}; }

  /// Whether the values are to be read: not where that is refused, or only planned. `result` is the
  /// plan's tensor, or nullptr.
  bool goes_on(PyObject** result) {
    DryRun* dry = ingest.request.dry;
    *result = dry != nullptr ? stop_at(move(), Owner(), dry) : nullptr;
    if (dry != nullptr) return false;
    if (decision.action == Action::refuse) {
      refuse(move());
      return false;
    }
    return recording.emplace(move()).allowed();
  }

  /// What was made of the values, where it was asked for; or what was planned.
  PyObject* done(Ref&& made) {
    if (!made || !recording) return made.release();
    if ((decision.reasons & bit(Reason::device)) != 0)
      made = Ref::steal(device_copy(reinterpret_cast<Tensor*>(made.get()), demand));
    return recording->done(made.release());
  }
};

/// Whether nobody has to be told or asked before values are read.
bool builds_at_once(const Request& request) {
  return !watched() && request.copy != CopyMode::never && !request.somewhere &&
         request.dry == nullptr;
}

/// Makes a tensor of Python values, as a move like any other. `store` writes the values to memory,
/// a number of bits one behind the other: 0 where a dry run only asks whether they can be.
template <typename Store>
PyObject* build(const Ingest& ingest, Route route, DTypeId dtype, int32_t ndim,
                const int64_t* shape, Store store) {
  const auto make = [&]() -> PyObject* {
    Tensor* tensor = allocate(ingest.type, dtype, ndim, shape);
    if (tensor == nullptr) return nullptr;
    Ref owned = Ref::steal(tensor->object());
    return store(tensor->data, tensor->bits()) ? owned.release() : nullptr;
  };
  if (builds_at_once(ingest.request)) return make();
  Building building(ingest, route, dtype, ndim, shape);
  PyObject* result = nullptr;
  if (building.goes_on(&result)) return building.done(Ref::steal(make()));
  Ref planned = Ref::steal(result);
  alignas(16) std::byte scratch[16];
  return planned && store(scratch, 0) ? planned.release() : nullptr;
}

/// Writes the numbers of a surveyed sequence in row-major order.
struct Filler {
  const Survey& survey;
  DTypeId dtype;
  std::byte* data;
  int64_t step;  // bits
  int64_t bit = 0;

  bool fill(PyObject* x, int32_t at) {
    if (at == survey.known) {
      Scalar scalar;
      bool is_number;
      if (!scalar_of(x, &scalar, &is_number)) return false;
      if (!is_number) {
        PyErr_SetString(PyExc_RuntimeError, "a sequence changed while it was read");
        return false;
      }
      if (!store(data, bit, dtype, scalar, x)) return false;
      bit += step;
      return true;
    }
    const Ref items = Ref::steal(PySequence_Fast(x, "a sequence changed while it was read"));
    if (!items) return false;
    const auto count = static_cast<Py_ssize_t>(survey.shape[at]);
    return each_item(items.get(), count, [this, at](PyObject* item) { return fill(item, at + 1); });
  }
};

PyObject* from_numbers(const Ingest& ingest, const Survey& survey) {
  DTypeId dtype = ingest.request.dtype;
  if (dtype == unknown_dtype) {
    dtype = survey.rank < 0 ? id_float32 : dtype_of_rank[survey.rank];
    if (dtype == id_int64 && survey.too_large) {
      refuse_large(survey.too_large.get());
      return nullptr;
    }
  }
  return build(ingest, Route::sequence, dtype, survey.known, survey.shape,
               [&](std::byte* data, int64_t step) {
                 return Filler{survey, dtype, data, step}.fill(ingest.x, 0);
               });
}

/// Copies the tensors at a surveyed sequence's leaves into one, whose first `depth` axes are the
/// sequence's.
struct Stacker {
  Stacker(const Ingest& of, const Survey& surveyed) : ingest(of), survey(surveyed) {}

  const Ingest& ingest;
  const Survey& survey;
  Ref result;  // of a dry run: a tensor without memory
  std::optional<Building> building;
  int64_t next = 0;  // the leaf to come
  int64_t shape[max_ndim];

  bool place(PyObject* x, int32_t at) {
    if (at < survey.depth) {
      const Ref items = Ref::steal(PySequence_Fast(x, "a sequence changed while it was read"));
      if (!items) return false;
      const auto count = static_cast<Py_ssize_t>(survey.shape[at]);
      return each_item(items.get(), count,
                       [this, at](PyObject* item) { return place(item, at + 1); });
    }
    Request request;
    DryRun dry;
    if (ingest.request.dry != nullptr) request.dry = &dry;
    const Quiet step;                                              // the whole is one move
    if (is_plain_number(x)) request.dtype = ingest.request.dtype;  // one rounding, no detour
    const Ref leaf = Ref::steal(ingest_anything(state.tensor_type, x, request));
    return leaf && append(reinterpret_cast<Tensor*>(leaf.get()));
  }

  bool append(Tensor* leaf) {
    if (!building && !start(leaf)) return false;
    auto* whole = reinterpret_cast<Tensor*>(result.get());
    const int32_t depth = survey.depth;
    const bool same_shape =
        leaf->ndim() == whole->ndim() - depth &&
        std::equal(leaf->shape(), leaf->shape() + leaf->ndim(), whole->shape() + depth);
    if (!same_shape) {
      PyErr_SetString(
          PyExc_ValueError,
          "the tensors of a sequence have different shapes; pad them, or take candle.cat");
      return false;
    }
    if (ingest.request.dtype == unknown_dtype && leaf->dtype != whole->dtype) {
      PyErr_Format(PyExc_TypeError, "the tensors of a sequence are %s and %s; name one with dtype=",
                   whole->row().name, leaf->row().name);
      return false;
    }
    const int64_t begin = leaf->size * next++;
    if (ingest.request.dry != nullptr)
      return begins_a_byte(whole, begin) && check_copy_into(whole, leaf);
    Tensor* part = new_view(whole, leaf->ndim());
    if (part == nullptr) return false;
    const Ref owned = Ref::steal(part->object());
    part->size = leaf->size;
    std::copy_n(whole->shape() + depth, leaf->ndim(), part->shape());
    std::copy_n(whole->strides() + depth, leaf->ndim(), part->strides());
    return move_data(whole, begin, &part->data) && copy_into(part, leaf);
  }

  bool start(Tensor* leaf) {
    const int32_t ndim = survey.depth + leaf->ndim();
    if (ndim > max_ndim) {
      PyErr_Format(PyExc_ValueError, "the result would have %d axes; a tensor has at most %d", ndim,
                   max_ndim);
      return false;
    }
    std::copy_n(survey.shape, survey.depth, shape);
    std::copy_n(leaf->shape(), leaf->ndim(), shape + survey.depth);
    const DTypeId dtype =
        ingest.request.dtype == unknown_dtype ? leaf->dtype : ingest.request.dtype;
    building.emplace(ingest, Route::sequence, dtype, ndim, shape, leaf->device);
    PyObject* planned = nullptr;
    const Quiet::Lifted told;
    if (!building->goes_on(&planned)) {
      result = Ref::steal(planned);
    } else if (cuda_memory(leaf->device)) {  // stays where its parts are
      result = Ref::steal(device_empty(dtype, ndim, shape, leaf->device));
    } else {
      Tensor* whole = allocate(ingest.type, dtype, ndim, shape);
      result = Ref::steal(whole == nullptr ? nullptr : whole->object());
    }
    return static_cast<bool>(result);
  }
};

/// Whether it is asked where values lie that lie nowhere; a TypeError is set then.
bool has_no_memory(const Ingest& ingest) {
  if (ingest.request.dry == nullptr || !ingest.request.dry->memory_only) return false;
  PyErr_Format(PyExc_TypeError, "%s holds Python values, which lie in no block of memory",
               ingest.producer());
  return true;
}

}  // namespace

bool ingest_number(const Ingest& ingest, PyObject** result) noexcept {
  *result = nullptr;
  Scalar scalar;
  bool is_number;
  if (!scalar_of(ingest.x, &scalar, &is_number)) return true;
  if (!is_number) return false;
  if (has_no_memory(ingest)) return true;
  DTypeId dtype = ingest.request.dtype;
  if (dtype == unknown_dtype) {
    dtype = default_dtype(scalar);
    if (scalar.kind == Scalar::Kind::unsigned_int || is_large(scalar, ingest.x)) {
      refuse_large(ingest.x);
      return true;
    }
  }
  *result = build(ingest, Route::scalar, dtype, 0, nullptr, [&](std::byte* data, int64_t) {
    return store(data, 0, dtype, scalar, ingest.x);
  });
  return true;
}

bool ingest_sequence(const Ingest& ingest, PyObject** result) noexcept {
  *result = nullptr;
  if (!is_sequence(ingest.x)) return false;
  if (has_no_memory(ingest)) return true;
  Survey survey;
  if (!survey.look(ingest.x, 0)) return true;
  if (survey.numbers_only) {
    *result = from_numbers(ingest, survey);
    return true;
  }
  Stacker stacker(ingest, survey);
  if (!stacker.place(ingest.x, 0)) return true;
  *result = stacker.building->done(std::move(stacker.result));
  return true;
}

}  // namespace candle
