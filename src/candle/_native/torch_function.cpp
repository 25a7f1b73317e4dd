// __torch_function__: torch's functions take Tensors among their arguments.
#include "export.h"
#include "tensor.h"
#include "torch_writes.h"

namespace candle {

namespace {

/// What a call does with a tensor that it is given.
enum class Use : uint8_t { reads, writes };

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
/// `use`: position -> Use.
template <typename UseAt>
Ref replaced_sequence(PyObject* sequence, UseAt use) {
  Ref result;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); i++) {
    const Ref member = member_of(sequence, i);
    if (!member) return Ref();
    Ref now = replaced(member.get(), use(i));
    if (!now) return Ref();
    if (now.get() == member.get()) continue;
    if (!result) result = Ref::steal(PySequence_List(sequence));
    if (!result || PyList_SetItem(result.get(), i, now.release()) < 0) return Ref();
  }
  if (!result) return Ref::borrow(sequence);
  return PyTuple_Check(sequence) ? Ref::steal(PyList_AsTuple(result.get())) : std::move(result);
}

/// The same of a dict, which is searched in a copy: making torch's tensors runs Python. `use`:
/// key -> Use.
template <typename UseAt>
Ref replaced_dict(PyObject* dict, UseAt use) {
  const Ref items = Ref::steal(PyDict_Copy(dict));
  if (!items) return Ref();
  Ref result;
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(items.get(), &at, &key, &value)) {
    const Ref now = replaced(value, use(key));
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
  const auto all = [use](auto) { return use; };
  Ref result = sequence ? replaced_sequence(value, all) : replaced_dict(value, all);
  Py_LeaveRecursiveCall();
  return result;
}

/// Old signatures have a number before the tensor that is written to: addmv_(beta, input, ...).
bool starts_with_number(PyObject* args) {
  if (PyTuple_GET_SIZE(args) == 0) return false;
  PyObject* first = PyTuple_GET_ITEM(args, 0);
  return PyLong_Check(first) || PyFloat_Check(first) || PyComplex_Check(first);
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
  std::unique_ptr<TorchWrites> fleeting;
  const TorchWrites* writes = torch_writes(function, &fleeting);
  if (writes == nullptr) return nullptr;
  const int now = writes_now(*writes, positional, keywords);
  if (now < 0) return nullptr;
  const Py_ssize_t shift = now && starts_with_number(positional) ? 1 : 0;
  const auto used = [](bool written) { return written ? Use::writes : Use::reads; };
  const Ref given = replaced_sequence(
      positional, [&](Py_ssize_t i) { return used(now && i >= shift && writes->at(i - shift)); });
  if (!given) return nullptr;
  Ref named;
  if (keywords != nullptr) {
    named = replaced_dict(keywords, [&](PyObject* key) {
      return used(is_among(key, writes->outs) || (now && is_among(key, writes->names)));
    });
    if (!named) return nullptr;
  }
  return PyObject_Call(function, given.get(), named.get());
}

}  // namespace candle
