// The ways in. Every route ends in `finish`, which decides and then shares or copies.
#pragma once

#include <optional>

#include "decide.h"
#include "layout.h"
#include "move.h"
#include "pyref.h"
#include "state.h"
#include "storage.h"
#include "type_record.h"

namespace candle {

/// What makes elements that lie in parts one block: the copy of a move whose source has them.
class Assembly {
 public:
  /// Writes every element, cast, into a tensor of the move's shape; false with an error set.
  virtual bool write(Tensor* dst) const noexcept = 0;

 protected:
  ~Assembly() = default;
};

/// One ingest while it is under way.
struct Ingest {
  PyTypeObject* type;  // of the result
  PyObject* x;         // nullptr where memory comes without its object
  const Request& request;
  PyTypeObject* given = nullptr;       // what the caller gave, where x stands in its place
  const Assembly* assembly = nullptr;  // of elements that lie in parts

  PyTypeObject* from() const { return given == nullptr && x != nullptr ? Py_TYPE(x) : given; }
  const char* producer() const { return from() == nullptr ? ownerless : from()->tp_name; }
};

/// Decides, then makes the Tensor. Every route's last step. nullptr with an error set.
PyObject* finish(const Ingest& ingest, const Source& source, Owner&& owner) noexcept;

/// The two halves of `finish`, for a producer whose memory is not ours until the move is certain:
/// its decision, which is told to who watches, and the rest.
struct Admission {
  Decision decision;
  Demand demand;
  Source source;
  int64_t shape[max_ndim], strides[max_ndim];
  std::optional<Recording> recording;
};
/// False with an error set where the move is refused, or a watcher forbids it.
bool admit(const Ingest& ingest, const Source& source, Admission* admission) noexcept;
PyObject* carry_out(const Ingest& ingest, Admission* admission, Owner&& owner) noexcept;

/// Anything: rule 1 of docs/design.md. nullptr with an error set.
PyObject* ingest_anything(PyTypeObject* type, PyObject* x, const Request& request) noexcept;

// The routes of a type that is known to take them: a Tensor, or nullptr with an error set.
PyObject* ingest_exchange(const Ingest& ingest, const TypeRecord& record) noexcept;
PyObject* ingest_numpy(const Ingest& ingest) noexcept;
// The others. Each answers whether it applies to the object; if so `result` is the Tensor, or
// nullptr with an error set.
bool ingest_dlpack(const Ingest& ingest, const TypeRecord& record, bool legacy,
                   PyObject** result) noexcept;
bool ingest_cuda_interface(const Ingest& ingest, bool read_only, PyObject** result) noexcept;
/// The same for an array that a producer gives in its own place: with the reasons that come with
/// it, and read-only if the producer is; `copied` says how it is known for a copy made for this. A
/// BufferError is set for what is no exact ndarray.
PyObject* ingest_array_given(const Ingest& ingest, ReasonSet found, bool read_only,
                             const char* copied = nullptr) noexcept;
bool ingest_array_struct(const Ingest& ingest, bool read_only, PyObject** result) noexcept;
bool ingest_array_interface(const Ingest& ingest, bool read_only, PyObject** result) noexcept;
bool ingest_buffer(const Ingest& ingest, bool read_only, PyObject** result) noexcept;
bool ingest_arrow(const Ingest& ingest, PyObject** result) noexcept;
bool ingest_array(const Ingest& ingest, bool read_only, PyObject** result) noexcept;
bool ingest_number(const Ingest& ingest, PyObject** result) noexcept;
bool ingest_sequence(const Ingest& ingest, PyObject** result) noexcept;

/// Asks a producer of device memory for a capsule, with a stream, while its device is current:
/// by `guard`, its framework's own way, or in the driver. Empty with an error set; a TypeError is
/// an old signature's.
Ref ask_capsule(PyObject* producer, PyObject* stream, bool old_signature, PyObject* guard,
                DLDevice device) noexcept;

/// The address in a capsule of either name; nullptr, no error, where it is none.
const std::byte* capsule_data(PyObject* capsule) noexcept;

/// A raw DLPack capsule of either name.
PyObject* ingest_capsule(const Ingest& ingest) noexcept;

/// A typestr or PEP 3118 format of one element, its byte order told apart. `unknown_dtype` where
/// there is none.
DTypeId parse_typestr(const char* typestr, bool* swapped) noexcept;
DTypeId parse_format(const char* format, Py_ssize_t itemsize, bool* swapped) noexcept;

/// A protocol's attribute of the producer. Nothing and no error where it is absent or None; an
/// error of the lookup itself is blamed on the producer, like one of the call.
Ref protocol_attribute(const Ingest& ingest, PyObject* name) noexcept;

// Module functions.
PyObject* from_dlpack(PyObject* module, PyObject* const* args, Py_ssize_t nargs, PyObject* names);
extern const char from_arrow_doc[];
PyObject* from_arrow(PyObject* module, PyObject* const* args, Py_ssize_t nargs, PyObject* names);
PyObject* asarray(PyObject* module, PyObject* const* args, Py_ssize_t nargs, PyObject* names);
PyObject* shared(PyObject* module, PyObject* const* args, Py_ssize_t nargs);
/// `sharer(done, detached, share, otherwise)`: a function of one tensor, for `candle.convert`.
PyObject* sharer(PyObject* module, PyObject* const* args, Py_ssize_t nargs);
PyObject* ingest_by(PyObject* module, PyObject* const* args, Py_ssize_t nargs);
PyObject* exchange_floor(PyObject* module, PyObject* x);

}  // namespace candle
