// What candle knows of a producer's type, asked once per type: which way its objects come in, and
// what has to be looked at.
#pragma once

#include <atomic>

#include "decide.h"
#include "pyref.h"

namespace candle {

enum class TypeKind : uint8_t {
  plain,             // nothing is known: the protocols are tried in their order
  numpy,             // exactly numpy.ndarray: its C struct is read
  exchange,          // a DLPack C exchange table of a framework known here, with its guards
  foreign_exchange,  // a table that the type carries itself
  stand_in,          // a Python function gives another object in its place, or refuses
};

/// A method without arguments that answers yes or no. A builtin one is called without the detour of
/// a call's protocol.
struct Question {
  PyObject* method = nullptr;
  PyCFunction direct = nullptr;
};

/// A getset attribute, read without the detour of a lookup.
struct Attribute {
  getter get = nullptr;
  void* closure = nullptr;
};

/// Holds its references; whoever uses it while Python code may run holds the type.
struct TypeRecord {
  TypeRecord() = default;
  TypeRecord(const TypeRecord&) = delete;
  TypeRecord& operator=(const TypeRecord&) = delete;
  ~TypeRecord();

  std::atomic<PyTypeObject*> type{nullptr};
  PyObject* watch = nullptr;   // a weak reference to the type, which ends the record with it
  TypeRecord* next = nullptr;  // of the same slot
  TypeKind kind = TypeKind::plain;
  bool dlpack_and_arrow = false;  // the type has methods of both protocols
  bool copies = false;            // a Tensor that `stand_in` gives is a copy, made for that
  bool read_only = false;  // objects of this type are immutable though their capsules do not say so
  const DLPackExchangeAPI* table = nullptr;
  // Guards of a table that checks nothing itself.
  Attribute requires_grad;
  PyObject* refuse_tangent = nullptr;  // object -> raises if it has one; while forward mode is open
  Attribute dtype;
  PyObject* byte_dtypes =
      nullptr;  // the dtypes, a tuple, whose elements really are the bytes the table says
  Question is_conj;
  Question is_neg;
  Question is_pinned;  // of memory that only says it is the host's
  // What keeps an object's memory: the object itself, or what `hold` makes of it. Then the borrowed
  // DLTensor is taken, not a managed one.
  bool holds_itself = false;
  PyObject* hold = nullptr;
  // Of a framework with streams: its current one, by the table or by a callable (device number ->
  // stream); what keeps lent memory for a stream (keeper, stream, device number); what makes a
  // device current (number -> context manager).
  PyObject* work_stream = nullptr;
  PyObject* record_stream = nullptr;
  PyObject* device_guard = nullptr;
  int64_t import_stream = -1;    // asks its __dlpack__ for no ordering
  PyObject* resolve = nullptr;   // object -> one whose memory holds its values, signs and all
  PyObject* stand_in = nullptr;  // object -> the object to ingest in its place
  PyObject* explain = nullptr;   // object -> raises why its table refuses it
};

namespace detail {

// A hash table of chains: a lookup is a hash and, nearly always, one comparison. Records are
// published whole, so that readers need no lock. A record goes when its type does; on free-threaded
// builds, where somebody may be reading it, it stays for good.
inline constexpr size_t record_slots = 1024;
extern std::atomic<TypeRecord*> records[record_slots];

inline size_t record_slot(PyTypeObject* type) {
  const auto address = reinterpret_cast<uintptr_t>(type);
  return (address >> 4 ^ address >> 14) % record_slots;
}

const TypeRecord* find_record(PyTypeObject* type) noexcept;

}  // namespace detail

/// The record of a type; nullptr with an error set. Cached for the life of the type.
inline const TypeRecord* record_of(PyTypeObject* type) noexcept {
  const TypeRecord* record =
      detail::records[detail::record_slot(type)].load(std::memory_order_acquire);
  return record != nullptr && record->type.load(std::memory_order_relaxed) == type
             ? record
             : detail::find_record(type);
}

/// The table behind a `__dlpack_c_exchange_api__` capsule whose major version is 1; nullptr, no
/// error, where there is none.
const DLPackExchangeAPI* table_in(PyObject* capsule) noexcept;

/// Whether an object says that its memory is pinned. 1, 0, or -1 with an error set.
int ask_pinned(PyObject* x) noexcept;

/// Asks the guards of a record; the reasons found. False with an error set where a guard itself
/// failed. `detached`: gradients are no reason where not the object is held, but its memory; the
/// object would keep the graph behind it alive.
bool ask_guards(const TypeRecord& record, PyObject* x, bool detached, Source* source) noexcept;

}  // namespace candle
