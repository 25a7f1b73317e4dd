// What the tests need of C: the CPython API in the few words used here, so that no header is needed.
#pragma once

#include <cstddef>

extern "C" {
using PyObject = struct _object;
PyObject* PyObject_CallNoArgs(PyObject*);
void PyErr_SetString(PyObject*, const char*);
extern PyObject* PyExc_RuntimeError;
void Py_InitializeEx(int);
int PyRun_SimpleStringFlags(const char*, struct PyCompilerFlags*);

struct PyMemAllocatorEx {
  void* ctx;
  void* (*malloc)(void*, size_t);
  void* (*calloc)(void*, size_t, size_t);
  void* (*realloc)(void*, void*, size_t);
  void (*free)(void*, void*);
};
void PyMem_GetAllocator(int domain, PyMemAllocatorEx*);
void PyMem_SetAllocator(int domain, PyMemAllocatorEx*);
}

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace faults {

/// Whether the allocation that is asked for now is to fail: of Python's or of the core's own.
enum class Side { python, native };
bool fails(Side side) noexcept;

}  // namespace faults
