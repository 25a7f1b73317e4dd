// The module's functions that have no file of their own. The table in module.cpp documents them.
#pragma once

#include "pyref.h"

namespace candle {

PyObject* py_dtype_rows(PyObject*, PyObject*);
PyObject* py_empty(PyObject*, PyObject* args);
PyObject* py_copy_into(PyObject*, PyObject* args);
PyObject* py_assign(PyObject*, PyObject* args);
PyObject* py_fill(PyObject*, PyObject* args);
PyObject* py_in_words(PyObject*, PyObject* value);
PyObject* py_materialise(PyObject*, PyObject* args);
PyObject* py_conform(PyObject*, PyObject* args);
PyObject* py_check_writable(PyObject*, PyObject* object);
PyObject* py_is_padded(PyObject*, PyObject* object);
PyObject* py_host_copy(PyObject*, PyObject* args);
PyObject* py_host_write(PyObject*, PyObject* args);
PyObject* py_lender(PyObject*, PyObject* object);
PyObject* py_simd(PyObject*, PyObject*);
PyObject* py_live(PyObject*, PyObject*);
PyObject* py_num_threads(PyObject*, PyObject*);
PyObject* py_set_num_threads(PyObject*, PyObject* argument);
PyObject* py_set_overlap_room(PyObject*, PyObject* argument);

}  // namespace candle
