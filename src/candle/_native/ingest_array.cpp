// `__array__`: a producer gives an array in its own place, which may be a copy.
#include "ingest.h"
#include "move.h"
#include "tensor.h"
#include "words.h"

namespace candle {

namespace {

/// Whether somebody minds that a producer's array is a copy: who forbids copies, watches moves, or
/// only asks for a plan.
bool asks_for_copies(const Request& request) {
  if (request.copy == CopyMode::never) return true;
  const bool anywhere = request.copy == CopyMode::if_needed && request.into == nullptr;
  return anywhere && (watched() || request.dry != nullptr);
}

/// `__array__(copy=False)`: numpy's protocol since its version 2. Nothing where the producer would
/// have to copy, or does not know the keyword: what it raised is in `no` then, else an error is
/// set.
Ref ask_shared(const Ingest& ingest, PyObject* method, Ref* no) {
  PyObject* const arguments[] = {Py_False};
  Ref array = Ref::steal(PyObject_Vectorcall(method, arguments, 0, state.copy_name));
  if (array) return array;
  if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_TypeError)) {
    blame_producer(ingest.producer());
    return {};
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  const Ref unused[] = {Ref::steal(type), Ref::steal(traceback)};
  *no = Ref::steal(value);
  return {};
}

/// The fact that such an answer tells. False with an error set where there is no memory for it.
bool tell_copy(PyObject* no, Fact* why) {
  const Ref words = in_words(no);
  const Ref text =
      words ? Ref::steal(PyUnicode_AsEncodedString(words.get(), "ascii", "backslashreplace"))
            : Ref();
  if (!text) return false;
  PyOS_snprintf(why->text, sizeof why->text,
                PyErr_GivenExceptionMatches(no, PyExc_TypeError)
                    ? "its __array__ does not take copy=False, so that nobody can tell whether it "
                      "copies: %s"
                    : "its __array__ would have to copy: %s",
                PyBytes_AS_STRING(text.get()));
  return true;
}

}  // namespace

bool ingest_array(const Ingest& ingest, bool read_only, PyObject** result) noexcept {
  *result = nullptr;
  if (PyType_Check(ingest.x)) return false;
  const Ref method = protocol_attribute(ingest, state.names.array);
  if (!method) return PyErr_Occurred() != nullptr;
  Fact why;
  bool copies = false;
  Ref array;
  if (asks_for_copies(ingest.request)) {
    Ref no;
    array = ask_shared(ingest, method.get(), &no);
    if (!array && (!no || !tell_copy(no.get(), &why))) return true;
    copies = !array;
    if (copies && ingest.request.copy == CopyMode::never) {
      refuse_by(Route::array, "producer_copies", why.text, ingest.from());
      raise_from(std::move(no));
      return true;
    }
  }
  if (!array) array = Ref::steal(PyObject_CallNoArgs(method.get()));
  if (!array) {
    blame_producer(ingest.producer());
    return true;
  }
  const TypeRecord* record = record_of(Py_TYPE(array.get()));
  if (record == nullptr) return true;
  if (record->kind == TypeKind::stand_in) {  // a subclass, or a scalar
    array = Ref::steal(PyObject_CallOneArg(record->stand_in, array.get()));
    if (!array) return true;
  }
  const Ingest given{ingest.type, array.get(), ingest.request, ingest.from()};
  *result = copies ? ingest_array_given(given, bit(Reason::producer_copies), read_only, why.text)
                   : ingest_array_given(given, 0, read_only);
  return true;
}

}  // namespace candle
