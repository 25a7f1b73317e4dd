#include "type_record.h"

#include <memory>
#include <new>
#include <string_view>

#include "forward_mode.h"
#include "layout.h"
#include "numpy_api.h"
#include "state.h"

namespace candle {

namespace {

/// The attribute of a Record; nothing where it is None or absent. False with an error set.
bool attribute(PyObject* answer, const char* name, Ref* value) {
  *value = Ref::steal(PyObject_GetAttrString(answer, name));
  if (value->get() == Py_None) *value = Ref();
  if (!PyErr_Occurred()) return true;
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
  PyErr_Clear();
  return true;
}

Question question(Ref&& method) {
  Question asked{method.release(), nullptr};
  if (asked.method != nullptr && Py_IS_TYPE(asked.method, &PyMethodDescr_Type)) {
    const PyMethodDef* definition = reinterpret_cast<PyMethodDescrObject*>(asked.method)->d_method;
    if (definition->ml_flags == METH_NOARGS) asked.direct = definition->ml_meth;
  }
  return asked;
}

Attribute getset(const Ref& descriptor) {
  if (!descriptor || !Py_IS_TYPE(descriptor.get(), &PyGetSetDescr_Type)) return {};
  const PyGetSetDef* definition =
      reinterpret_cast<PyGetSetDescrObject*>(descriptor.get())->d_getset;
  return {definition->get, definition->closure};
}

/// Whether everything can be asked that a framework's own table does not look at.
bool guarded(const TypeRecord& record) {
  return record.requires_grad.get != nullptr && record.byte_dtypes != nullptr &&
         record.is_conj.method != nullptr && record.is_neg.method != nullptr;
}

/// Fills a record from the Record that frameworks/ gave; false with an error set.
bool fill(TypeRecord* record, PyObject* answer) {
  Ref kind, read_only, table, requires_grad, refuse_tangent, forward_mode, dtype, byte_dtypes,
      is_conj, is_neg, is_pinned, hold, holds_itself, work_stream, record_stream, device_guard,
      import_stream, resolve, stand_in, explain, copies;
  struct {
    const char* name;
    Ref* value;
  } const attributes[] = {
      {"kind", &kind},
      {"read_only", &read_only},
      {"table", &table},
      {"requires_grad", &requires_grad},
      {"refuse_tangent", &refuse_tangent},
      {"forward_mode", &forward_mode},
      {"dtype", &dtype},
      {"byte_dtypes", &byte_dtypes},
      {"is_conj", &is_conj},
      {"is_neg", &is_neg},
      {"is_pinned", &is_pinned},
      {"hold", &hold},
      {"holds_itself", &holds_itself},
      {"work_stream", &work_stream},
      {"record_stream", &record_stream},
      {"device_guard", &device_guard},
      {"import_stream", &import_stream},
      {"resolve", &resolve},
      {"stand_in", &stand_in},
      {"explain", &explain},
      {"copies", &copies},
  };
  for (const auto& wanted : attributes) {
    if (!attribute(answer, wanted.name, wanted.value)) return false;
  }
  const char* name = kind ? PyUnicode_AsUTF8(kind.get()) : "plain";
  if (name == nullptr) return false;
  const std::string_view known(name);
  if (known == "numpy") {
    record->kind = TypeKind::numpy;
    if (!import_numpy()) return false;
  } else if (known == "exchange") {
    record->kind = TypeKind::exchange;
  } else if (known == "stand_in") {
    record->kind = TypeKind::stand_in;
  }
  record->read_only = read_only.get() == Py_True;
  record->copies = copies.get() == Py_True;
  if (table) record->table = table_in(table.get());
  record->requires_grad = getset(requires_grad);
  if (forward_mode) {
    if (!follow_forward_mode(forward_mode.get())) return false;
    record->refuse_tangent = refuse_tangent.release();
  }
  record->dtype = getset(dtype);
  if (record->dtype.get != nullptr) record->byte_dtypes = byte_dtypes.release();
  record->is_conj = question(std::move(is_conj));
  record->is_neg = question(std::move(is_neg));
  record->is_pinned = question(std::move(is_pinned));
  record->holds_itself = holds_itself.get() == Py_True;
  record->hold = hold.release();
  record->work_stream = work_stream.release();
  record->record_stream = record_stream.release();
  record->device_guard = device_guard.release();
  record->resolve = resolve.release();
  if (import_stream) record->import_stream = PyLong_AsLongLong(import_stream.get());
  record->stand_in = stand_in.release();
  record->explain = explain.release();
  if (record->kind == TypeKind::exchange && (record->table == nullptr || !guarded(*record))) {
    record->kind = TypeKind::plain;
  }
  return true;
}

/// A type nobody knows by name may carry a table of its own. An inherited one is not trusted: a
/// subclass's objects need not be plain memory. False with an error set.
bool look_for_table(TypeRecord* record) {
  if (record->type == state.tensor_type) return true;  // candle's own table is for others
  PyObject* members = record->type.load()->tp_dict;
  const Ref capsule = members == nullptr ? Ref() : entry_of(members, state.names.c_exchange_api);
  if (!capsule) return forgive();
  record->table = table_in(capsule.get());
  if (record->table != nullptr) record->kind = TypeKind::foreign_exchange;
  return true;
}

/// Whether a type has a method; what its metaclass may raise is no answer. False with an error set
/// where nothing can be said: what is found here is kept for good.
bool has_method(PyTypeObject* type, PyObject* name, bool* has) {
  const Ref method = Ref::steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));
  *has = method && method.get() != Py_None;
  return forgive();
}

constexpr char record_name[] = "candle type record";

/// Called when a type dies: no object of it is left, so nobody uses its record.
PyObject* forget(PyObject* capsule, PyObject*) {
  auto* record = static_cast<TypeRecord*>(PyCapsule_GetPointer(capsule, record_name));
  if (record == nullptr) return nullptr;
#ifndef Py_GIL_DISABLED
  std::atomic<TypeRecord*>* place = &detail::records[detail::record_slot(record->type)];
  TypeRecord* before = nullptr;
  for (TypeRecord* at = place->load(); at != nullptr && at != record; at = at->next) before = at;
  if (before == nullptr) {
    place->store(record->next);
  } else {
    before->next = record->next;
  }
  delete record;
#else
  // Others may be on their way along the chain; a new type may come to lie where this one did.
  record->type.store(nullptr, std::memory_order_relaxed);
#endif
  Py_RETURN_NONE;
}

PyMethodDef forget_method = {"forget", forget, METH_O, nullptr};

/// Watches for the end of a record's type; false with an error set.
bool watch(TypeRecord* record) {
  const Ref capsule = Ref::steal(PyCapsule_New(record, record_name, nullptr));
  if (!capsule) return false;
  const Ref callback = Ref::steal(PyCFunction_New(&forget_method, capsule.get()));
  if (!callback) return false;
  record->watch =
      PyWeakref_NewRef(reinterpret_cast<PyObject*>(record->type.load()), callback.get());
  return record->watch != nullptr;
}

TypeRecord* make_record(PyTypeObject* type) {
  std::unique_ptr<TypeRecord> record(new (std::nothrow) TypeRecord);
  if (record == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  record->type = type;
  PyObject* object = reinterpret_cast<PyObject*>(type);
  const Ref answer =
      state.hooks.recognise == nullptr
          ? Ref::borrow(Py_None)
          : Ref::steal(PyObject_CallFunctionObjArgs(state.hooks.recognise, object, nullptr));
  if (!answer) return nullptr;
  if (answer.get() == Py_None) {
    if (!look_for_table(record.get())) return nullptr;
  } else if (!fill(record.get(), answer.get())) {
    return nullptr;
  }
  bool dlpack, arrow;
  if (!has_method(type, state.names.dlpack, &dlpack) ||
      !has_method(type, state.names.arrow_c_array, &arrow)) {
    return nullptr;
  }
  record->dlpack_and_arrow = dlpack && arrow;
  return watch(record.get()) ? record.release() : nullptr;
}

/// 1, 0, or -1 with an error set.
int ask(const Question& asked, PyObject* x) {
  const Ref answer =
      Ref::steal(asked.direct != nullptr ? asked.direct(x, nullptr)
                                         : PyObject_Vectorcall(asked.method, &x, 1, nullptr));
  return answer ? answer.get() == Py_True : -1;
}

}  // namespace

TypeRecord::~TypeRecord() {
  for (PyObject* owned :
       {refuse_tangent, is_conj.method, is_neg.method, is_pinned.method, byte_dtypes, hold,
        work_stream, record_stream, device_guard, resolve, stand_in, explain, watch}) {
    drop(owned);
  }
}

std::atomic<TypeRecord*> detail::records[record_slots];

const TypeRecord* detail::find_record(PyTypeObject* type) noexcept {
  std::atomic<TypeRecord*>& head = records[record_slot(type)];
  for (const TypeRecord* at = head.load(std::memory_order_acquire); at != nullptr; at = at->next) {
    if (at->type.load(std::memory_order_relaxed) == type) return at;
  }
  const Ref held = Ref::borrow(reinterpret_cast<PyObject*>(type));  // asking runs Python
  TypeRecord* record = make_record(type);
  if (record == nullptr) return nullptr;
  record->next = head.load(std::memory_order_relaxed);
  while (!head.compare_exchange_weak(record->next, record, std::memory_order_acq_rel)) {
  }
  return record;
}

static constexpr int most_links = 64;

const DLPackExchangeAPI* table_in(PyObject* capsule) noexcept {
  if (!PyCapsule_IsValid(capsule, "dlpack_exchange_api")) return nullptr;
  const auto* header = static_cast<const DLPackExchangeAPIHeader*>(
      PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  // A chain of older versions ends; one that leads round in a circle has no table.
  for (int links = 0; header != nullptr && header->version.major != DLPACK_MAJOR_VERSION; links++) {
    header = links < most_links ? header->prev_api : nullptr;
  }
  const auto* table = reinterpret_cast<const DLPackExchangeAPI*>(header);
  return table != nullptr && table->managed_tensor_from_py_object_no_sync != nullptr ? table
                                                                                     : nullptr;
}

int ask_pinned(PyObject* x) noexcept {
  const TypeRecord* record = record_of(Py_TYPE(x));
  if (record == nullptr) return -1;
  return record->is_pinned.method == nullptr ? 0 : ask(record->is_pinned, x);
}

/// A table may call smaller elements bytes. False with an error set where it does.
static bool ask_dtype(const TypeRecord& record, PyObject* x) {
  const Ref dtype = Ref::steal(record.dtype.get(x, record.dtype.closure));
  if (!dtype) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(record.byte_dtypes); i++) {
    if (PyTuple_GET_ITEM(record.byte_dtypes, i) == dtype.get()) return true;
  }
  if (record.explain != nullptr) {
    const Ref unused = Ref::steal(PyObject_CallOneArg(record.explain, x));
  }
  if (!PyErr_Occurred()) PyErr_Format(PyExc_BufferError, "candle has no dtype for %R", dtype.get());
  return false;
}

bool ask_guards(const TypeRecord& record, PyObject* x, bool detached, Source* source) noexcept {
  const Kind kind = dtype_table[source->dtype].kind;
  if (source->unit == 8 && record.byte_dtypes != nullptr && !ask_dtype(record, x)) return false;
  if (kind == Kind::boolean || kind == Kind::signed_int || kind == Kind::unsigned_int) return true;
  if (!detached || record.holds_itself) {
    if (record.requires_grad.get != nullptr) {
      const Ref answer = Ref::steal(record.requires_grad.get(x, record.requires_grad.closure));
      if (!answer) return false;
      if (answer.get() == Py_True) source->reasons |= bit(Reason::requires_grad);
    }
    if (record.refuse_tangent != nullptr && forward_mode_open()) {
      const Ref none = Ref::steal(PyObject_CallOneArg(record.refuse_tangent, x));
      if (!none) return false;
    }
  }
  if (kind == Kind::complex_number && record.is_conj.method != nullptr) {
    const int conj = ask(record.is_conj, x);
    if (conj < 0) return false;
    if (conj) source->reasons |= bit(Reason::conj_bit);
  }
  // Every operation that gives a negative view of real numbers gives one with gaps, or of one
  // element.
  if (record.is_neg.method != nullptr && dtype_table[source->dtype].dlpack.bits >= 16 &&
      (source->size < 2 || !is_c_contiguous(source->ndim, source->shape, source->strides))) {
    const int neg = ask(record.is_neg, x);
    if (neg < 0) return false;
    if (neg) source->reasons |= bit(Reason::neg_bit);
  }
  return true;
}

}  // namespace candle
