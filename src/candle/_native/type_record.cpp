#include "type_record.h"

#include <new>
#include <string_view>

#include "layout.h"
#include "numpy_api.h"
#include "state.h"

namespace candle {

namespace {

/// The attribute as a new reference, nullptr where it is None or absent.
PyObject* attribute(PyObject* object, const char* name) {
  PyObject* value = PyObject_GetAttrString(object, name);
  if (value == nullptr) PyErr_Clear();
  if (value != Py_None) return value;
  drop(value);
  return nullptr;
}

Question question(PyObject* method) {
  Question asked{method, nullptr};
  if (method != nullptr && Py_IS_TYPE(method, &PyMethodDescr_Type)) {
    const PyMethodDef* definition = reinterpret_cast<PyMethodDescrObject*>(method)->d_method;
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

bool fill(TypeRecord* record, PyObject* answer) {
  Ref kind = Ref::steal(attribute(answer, "kind"));
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
  Ref read_only = Ref::steal(attribute(answer, "read_only"));
  record->read_only = read_only.get() == Py_True;
  Ref table = Ref::steal(attribute(answer, "table"));
  if (table) record->table = table_in(table.get());
  record->requires_grad = getset(Ref::steal(attribute(answer, "requires_grad")));
  record->dtype = getset(Ref::steal(attribute(answer, "dtype")));
  record->byte_dtypes = attribute(answer, "byte_dtypes");
  record->is_conj = question(attribute(answer, "is_conj"));
  record->is_neg = question(attribute(answer, "is_neg"));
  Ref holds_itself = Ref::steal(attribute(answer, "holds_itself"));
  record->holds_itself = holds_itself.get() == Py_True;
  record->hold = attribute(answer, "hold");
  record->work_stream = attribute(answer, "work_stream");
  record->record_stream = attribute(answer, "record_stream");
  record->device_guard = attribute(answer, "device_guard");
  const Ref import_stream = Ref::steal(attribute(answer, "import_stream"));
  if (import_stream) record->import_stream = PyLong_AsLongLong(import_stream.get());
  record->stand_in = attribute(answer, "stand_in");
  record->explain = attribute(answer, "explain");
  const bool half_guarded = record->byte_dtypes != nullptr && record->dtype.get == nullptr;
  if (record->kind == TypeKind::exchange && (record->table == nullptr || half_guarded)) {
    record->kind = TypeKind::plain;
    record->byte_dtypes = nullptr;
  }
  return true;
}

/// A type nobody knows by name may carry a table of its own. An inherited one is not trusted: a
/// subclass's objects need not be plain memory.
void look_for_table(TypeRecord* record) {
  if (record->type == state.tensor_type) return;  // candle's own table is for others
  PyObject* members = record->type->tp_dict;
  PyObject* capsule =
      members == nullptr ? nullptr : PyDict_GetItemWithError(members, state.names.c_exchange_api);
  if (capsule == nullptr) {
    PyErr_Clear();
    return;
  }
  record->table = table_in(capsule);
  if (record->table != nullptr) record->kind = TypeKind::exchange;
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
  for (PyObject* owned : {record->is_conj.method, record->is_neg.method, record->byte_dtypes,
                          record->hold, record->work_stream, record->record_stream,
                          record->device_guard, record->stand_in, record->explain, record->watch}) {
    drop(owned);
  }
  delete record;
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
  record->watch = PyWeakref_NewRef(reinterpret_cast<PyObject*>(record->type), callback.get());
  return record->watch != nullptr;
}

TypeRecord* make_record(PyTypeObject* type) {
  TypeRecord record;
  record.type = type;
  PyObject* object = reinterpret_cast<PyObject*>(type);
  const Ref answer =
      state.hooks.recognise == nullptr
          ? Ref::borrow(Py_None)
          : Ref::steal(PyObject_CallFunctionObjArgs(state.hooks.recognise, object, nullptr));
  if (!answer) return nullptr;
  if (answer.get() == Py_None) {
    look_for_table(&record);
  } else if (!fill(&record, answer.get())) {
    return nullptr;
  }
  auto* kept = new (std::nothrow) TypeRecord(record);
  if (kept == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  if (!watch(kept)) {
    delete kept;
    return nullptr;
  }
  return kept;
}

/// 1, 0, or -1 with an error set.
int ask(const Question& asked, PyObject* x) {
  const Ref answer =
      Ref::steal(asked.direct != nullptr ? asked.direct(x, nullptr)
                                         : PyObject_Vectorcall(asked.method, &x, 1, nullptr));
  return answer ? answer.get() == Py_True : -1;
}

}  // namespace

std::atomic<TypeRecord*> detail::records[record_slots];

const TypeRecord* detail::find_record(PyTypeObject* type) noexcept {
  std::atomic<TypeRecord*>& head = records[record_slot(type)];
  for (const TypeRecord* at = head.load(std::memory_order_acquire); at != nullptr; at = at->next) {
    if (at->type == type) return at;
  }
  TypeRecord* record = make_record(type);
  if (record == nullptr) return nullptr;
  record->next = head.load(std::memory_order_relaxed);
  while (!head.compare_exchange_weak(record->next, record, std::memory_order_acq_rel)) {
  }
  return record;
}

const DLPackExchangeAPI* table_in(PyObject* capsule) noexcept {
  if (!PyCapsule_IsValid(capsule, "dlpack_exchange_api")) return nullptr;
  const auto* header = static_cast<const DLPackExchangeAPIHeader*>(
      PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  while (header != nullptr && header->version.major != DLPACK_MAJOR_VERSION)
    header = header->prev_api;
  const auto* table = reinterpret_cast<const DLPackExchangeAPI*>(header);
  return table != nullptr && table->managed_tensor_from_py_object_no_sync != nullptr ? table
                                                                                     : nullptr;
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
  if (record.requires_grad.get != nullptr && (!detached || record.holds_itself)) {
    Ref answer = Ref::steal(record.requires_grad.get(x, record.requires_grad.closure));
    if (!answer) return false;
    if (answer.get() == Py_True) source->reasons |= bit(Reason::requires_grad);
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
