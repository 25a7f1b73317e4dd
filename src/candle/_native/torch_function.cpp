// __torch_function__: torch's functions take Tensors among their arguments.
#include <string_view>

#include "export.h"
#include "tensor.h"

namespace candle {

namespace {

/// What a call does with a tensor that it is given.
enum class Use : uint8_t { reads, writes };

/// Whether a function writes to its first argument: torch says it by an underscore at the end, or
/// `inplace=True`. Its operators have a tensor of its own there.
/// -1 with an error set.
int writes_first(PyObject* function, PyObject* kwargs) {
  if (kwargs != nullptr) {
    const Ref in_place = entry_of(kwargs, state.names.inplace);
    if (in_place) return PyObject_IsTrue(in_place.get());
    if (PyErr_Occurred()) return -1;
  }
  const Ref name = Ref::steal(PyObject_GetAttr(function, state.names.name));
  if (!name) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    PyErr_Clear();
    return 0;
  }
  if (!PyUnicode_Check(name.get())) return 0;
  Py_ssize_t length;
  const char* text = PyUnicode_AsUTF8AndSize(name.get(), &length);
  if (text == nullptr) return -1;
  const std::string_view said(text, static_cast<size_t>(length));
  return said.ends_with('_') && !said.ends_with("__");
}

PyObject* torch_of(Tensor* tensor, Use use) {
  if (use == Use::reads) return give_to_torch(tensor);
  if (tensor->read_only) {
    PyErr_SetString(PyExc_ValueError,
                    "the tensor is read-only, and the torch function writes to it; t.copy() can be "
                    "written");
    return nullptr;
  }
  return share_as_torch(tensor);  // what was written to a copy would be lost
}

Ref replaced(PyObject* value, Use use);

/// The members of a list or tuple, replaced: the object itself where there is nothing to replace.
Ref replaced_sequence(PyObject* sequence, Use first, Use others) {
  Ref result;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); i++) {
    const Ref member = member_of(sequence, i);
    if (!member) return Ref();
    Ref now = replaced(member.get(), i == 0 ? first : others);
    if (!now) return Ref();
    if (now.get() == member.get()) continue;
    if (!result) result = Ref::steal(PySequence_List(sequence));
    if (!result || PyList_SetItem(result.get(), i, now.release()) < 0) return Ref();
  }
  if (!result) return Ref::borrow(sequence);
  return PyTuple_Check(sequence) ? Ref::steal(PyList_AsTuple(result.get())) : std::move(result);
}

/// The same of a dict, which is searched in a copy: making torch's tensors runs Python. `named`:
/// the keywords of a call, where `out` is written to.
Ref replaced_dict(PyObject* dict, Use use, bool named) {
  const Ref items = Ref::steal(PyDict_Copy(dict));
  if (!items) return Ref();
  Ref result;
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(items.get(), &at, &key, &value)) {
    const bool out =
        named && PyUnicode_Check(key) && PyUnicode_CompareWithASCIIString(key, "out") == 0;
    const Ref now = replaced(value, out ? Use::writes : use);
    if (!now) return Ref();
    if (now.get() == value) continue;
    if (!result) result = Ref::steal(PyDict_Copy(items.get()));
    if (!result || PyDict_SetItem(result.get(), key, now.get()) < 0) return Ref();
  }
  return result ? std::move(result) : Ref::borrow(dict);
}

/// A torch.Tensor for a Tensor, also inside lists, tuples and dicts; other objects themselves.
Ref replaced(PyObject* value, Use use) {
  if (Tensor* tensor = as_tensor(value)) return Ref::steal(torch_of(tensor, use));
  const bool sequence = PyList_CheckExact(value) || PyTuple_CheckExact(value);
  if (!sequence && !PyDict_CheckExact(value)) return Ref::borrow(value);
  if (Py_EnterRecursiveCall(" to give Tensors to a torch function")) return Ref();
  Ref result = sequence ? replaced_sequence(value, use, use) : replaced_dict(value, use, false);
  Py_LeaveRecursiveCall();
  return result;
}

}  // namespace

PyObject* torch_function(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"func", "types", "args", "kwargs", nullptr};
  PyObject *function, *types, *positional = nullptr, *keywords = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|O!O:__torch_function__",
                                   const_cast<char**>(names), &function, &types, &PyTuple_Type,
                                   &positional, &keywords)) {
    return nullptr;
  }
  const Ref none = Ref::steal(positional == nullptr ? PyTuple_New(0) : nullptr);
  if (positional == nullptr) positional = none.get();
  if (keywords == Py_None) keywords = nullptr;
  if (positional == nullptr) return nullptr;
  if (keywords != nullptr && !PyDict_Check(keywords)) {
    PyErr_Format(PyExc_TypeError, "kwargs is a dict, not %s", Py_TYPE(keywords)->tp_name);
    return nullptr;
  }
  const int in_place = writes_first(function, keywords);
  if (in_place < 0) return nullptr;
  const Use first = in_place ? Use::writes : Use::reads;
  const bool by_name = PyTuple_GET_SIZE(positional) == 0;
  const Ref given = replaced_sequence(positional, first, Use::reads);
  if (!given) return nullptr;
  Ref named;
  if (keywords != nullptr) {
    named = replaced_dict(keywords, by_name ? first : Use::reads, true);
    if (!named) return nullptr;
  }
  return PyObject_Call(function, given.get(), named.get());
}

}  // namespace candle
