// What candle knows of a producer's type, asked once per type: which way its objects come in, and what has to be looked at.
#pragma once

#include "decide.h"
#include "pyref.h"

namespace candle {

enum class TypeKind : uint8_t {
  plain,     // nothing is known: the protocols are tried in their order
  numpy,     // exactly numpy.ndarray: its C struct is read
  exchange,  // the type carries a DLPack C exchange table
  stand_in,  // a Python function gives another object in its place, or refuses
};

struct TypeRecord {
  PyTypeObject* type = nullptr;  // held for good
  TypeKind kind = TypeKind::plain;
  bool read_only = false;  // objects of this type are immutable though their capsules do not say so
  const DLPackExchangeAPI* table = nullptr;
  // Guards of a table that checks nothing itself.
  getter requires_grad = nullptr;
  void* requires_grad_closure = nullptr;
  PyObject* is_conj = nullptr;
  PyObject* is_neg = nullptr;
  PyObject* hold = nullptr;      // object -> what keeps its memory; then the borrowed DLTensor is taken
  PyObject* resolve = nullptr;   // object -> a fresh object without conj and neg bits
  PyObject* stand_in = nullptr;  // object -> the object to ingest in its place
  PyObject* explain = nullptr;   // object -> raises why its table refuses it
};

/// The record of a type; nullptr with an error set. Cached for the life of the process.
const TypeRecord* record_of(PyTypeObject* type) noexcept;

/// The table behind a `__dlpack_c_exchange_api__` capsule whose major version is 1; nullptr, no error, where there is none.
const DLPackExchangeAPI* table_in(PyObject* capsule) noexcept;

/// Asks the guards of a record; the reasons found. False with an error set where a guard itself failed.
bool ask_guards(const TypeRecord& record, PyObject* x, Source* source) noexcept;

}  // namespace candle
