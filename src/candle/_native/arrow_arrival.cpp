#include "arrow_arrival.h"

#include <cstring>
#include <new>

#include "words.h"

namespace candle {

namespace {

bool consumed_before(const char* name) {
  PyErr_Format(PyExc_BufferError,
               "the capsule \"%s\" was consumed before; it can be used once, so ask for another",
               name);
  return false;
}

}  // namespace

bool Arrival::refuse(const Objection& objection) const noexcept {
  if (objection.code != nullptr) {
    refuse_by(route, objection.code, objection.text, ingest.from());
  } else {
    PyErr_Format(PyExc_BufferError, "%s exports impossible Arrow data: %s", ingest.producer(),
                 objection.text);
  }
  return false;
}

/// Finds the column that was asked for. ValueError or IndexError where there is none.
bool Arrival::choose_column(const ArrowSchema& schema) noexcept {
  if (PyLong_Check(options.column)) {
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(options.column, &overflow);
    chosen_ = number < 0 ? number + schema.n_children : number;
    if (overflow == 0 && chosen_ >= 0 && chosen_ < schema.n_children) return true;
    const Ref text = in_words(options.column);
    if (text) {
      PyErr_Format(PyExc_IndexError, "there is no column %U; there are %lld", text.get(),
                   static_cast<long long>(schema.n_children));
    }
    return false;
  }
  Py_ssize_t length = 0;
  const char* name = PyUnicode_AsUTF8AndSize(options.column, &length);
  if (name == nullptr) {  // half a character, which no name in UTF-8 has
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return false;
    PyErr_Clear();
  }
  int64_t found = 0;
  for (int64_t i = 0; name != nullptr && i < schema.n_children; i++) {
    const char* own = schema.children[i]->name;
    if (own == nullptr || std::strlen(own) != static_cast<size_t>(length) ||
        std::memcmp(own, name, static_cast<size_t>(length)) != 0) {
      continue;
    }
    chosen_ = i;
    found++;
  }
  if (found == 1) return true;
  const Ref text = in_words(options.column);
  if (text) {
    PyErr_Format(PyExc_ValueError,
                 found == 0 ? "no column is called %U"
                            : "several columns are called %U; take one "
                              "by its number",
                 text.get());
  }
  return false;
}

bool Arrival::take_schema(const ArrowSchema& schema) noexcept {
  Objection objection;
  if (!parse_root(schema, &table_, &objection)) return refuse(objection);
  children_ = table_ ? schema.n_children : 0;
  if (!table_ && options.column != nullptr) {
    PyErr_Format(PyExc_ValueError, "%s is one column, and has none to choose from",
                 ingest.producer());
    return false;
  }
  if (options.column != nullptr && !choose_column(schema)) return false;
  const int64_t first = chosen_ < 0 ? 0 : chosen_;
  const int64_t behind = chosen_ >= 0 ? chosen_ + 1 : table_ ? children_ : 1;
  for (int64_t i = first; i < behind; i++) {
    ColumnType* type = types.add();
    if (type == nullptr) return PyErr_NoMemory() != nullptr;
    if (!parse_column(table_ ? *schema.children[i] : schema, options.times, type, &objection)) {
      return refuse(objection);
    }
  }
  if (types.size() > 0) return true;
  objection.say("structured", "the table has no columns");
  return refuse(objection);
}

bool Arrival::lay_out_chunk(const ArrowArray& array, Objection* objection) noexcept {
  if (table_ && !check_table(array, children_, objection)) return false;
  const bool readable = host_memory(device);
  const bool refuses_nulls = options.nulls == ArrowOptions::NullsAs::error;
  for (int64_t i = 0; i < columns(); i++) {
    RoomyPiece piece;
    const ArrowArray& column = table_ ? *array.children[chosen_ < 0 ? i : chosen_] : array;
    // A slice of a table is not always one of its columns.
    const int64_t begin = table_ ? array.offset : 0;
    const bool laid = lay_out(types[i], column, begin, array.length, readable, &piece, objection) &&
                      (!table_ || add_row_nulls(array, readable, &piece, objection));
    // A list that is null has no items, as a rule: of another length than the rest it is called
    // only where nulls are welcome.
    const bool ragged = !laid && objection->code != nullptr && piece.null_slots > 0;
    if (!laid && !(ragged && refuses_nulls)) return false;
    if (piece.null_slots > 0 && refuses_nulls) {
      return objection->say("nulls", "%lld element%s null",
                            static_cast<long long>(piece.null_slots),
                            piece.null_slots == 1 ? " is" : "s are");
    }
    if (!pieces.keep(piece)) return false;
  }
  return true;
}

bool Arrival::take_chunk(ArrowArray* array) noexcept {
  Objection objection;
  if (!lay_out_chunk(*array, &objection)) {
    return objection.text[0] == 0 ? PyErr_NoMemory() != nullptr : refuse(objection);
  }
  auto* kept = new (std::nothrow) ArrowArray;
  Owner* owner = kept == nullptr ? nullptr : chunks.add();
  int64_t* length = owner == nullptr ? nullptr : lengths.add();
  if (length == nullptr) {
    delete kept;
    return PyErr_NoMemory() != nullptr;
  }
  *length = array->length;
  *kept = move_out(array);
  *owner = Owner::arrow(kept);
  return true;
}

bool Arrival::take_device_chunk(ArrowDeviceArray* array) noexcept {
  if (array->device_id < -1 || array->device_id > INT32_MAX) {
    Objection objection;
    objection.say(nullptr, "it is on the device %lld", static_cast<long long>(array->device_id));
    return refuse(objection);
  }
  DLDevice where = {static_cast<DLDeviceType>(array->device_type),
                    static_cast<int32_t>(array->device_id)};
  const bool host = host_memory(where);
  if (host && where.device_id < 0) where.device_id = 0;  // the host's has no number
  if (chunks.size() > 0 && !same_device(where, device)) {
    PyErr_Format(PyExc_BufferError,
                 "the chunks of %s lie on different devices; copy them to one "
                 "first",
                 ingest.producer());
    return false;
  }
  device = where;
  if (array->sync_event != nullptr) {
    const auto* event = static_cast<void* const*>(array->sync_event);
    const bool cuda = where.device_type == kDLCUDA || where.device_type == kDLCUDAManaged ||
                      where.device_type == kDLCUDAHost;
    if (!cuda) {
      PyErr_Format(PyExc_BufferError,
                   "%s has work pending on a device of DLPack's type %d, which candle cannot wait "
                   "for; wait for it first",
                   ingest.producer(), static_cast<int>(where.device_type));
      return false;
    }
    const int32_t number = device.device_id;
    cuda::Result result = cuda::wait_for_event(number, *event, cuda::legacy_stream);
    if (result == cuda::success && host) {
      const WithoutGil without(true);
      result = cuda::synchronize(number, cuda::legacy_stream);
    }
    if (result != cuda::success) {
      cuda_failed("wait for the producer's event", result);
      return false;
    }
    pending.stream = cuda::legacy_stream;
    if (array->array.release == nullptr) return consumed_before(arrow_names::device_array);
  }
  return take_chunk(&array->array);
}

namespace {

/// What a capsule of a name holds, if nobody has consumed it. nullptr with an error set.
template <typename Struct>
Struct* held_in(PyObject* capsule, const char* name, const char* producer) {
  if (!PyCapsule_IsValid(capsule, name)) {
    PyErr_Format(PyExc_BufferError, "%s gives %R where a capsule called \"%s\" has to be", producer,
                 capsule, name);
    return nullptr;
  }
  auto* held = static_cast<Struct*>(PyCapsule_GetPointer(capsule, name));
  if (held == nullptr) return nullptr;
  bool released;
  if constexpr (std::is_same_v<Struct, ArrowDeviceArray>) {
    released = held->array.release == nullptr;
  } else {
    released = held->release == nullptr;
  }
  if (!released) return held;
  consumed_before(name);
  return nullptr;
}

template <typename Stream>
bool stream_failed(Stream* stream, int code, const char* doing, const char* producer) {
  const char* said = stream->get_last_error == nullptr ? nullptr : stream->get_last_error(stream);
  PyErr_Format(PyExc_BufferError, "the Arrow stream of %s fails to %s: %.400s (error %d)", producer,
               doing, said == nullptr ? "it gives no reason" : said, code);
  return false;
}

/// Releases a struct when this goes; what the producer runs then may be Python, or wait for it.
template <typename Struct>
struct Closing {
  Released<Struct>* owned;
  ~Closing() {
    const PendingError pending;
    const WithoutGil without(true);
    owned->reset();
  }
};

/// Pulls every chunk of a stream. The GIL is let go meanwhile: what runs behind a stream, a query
/// say, may need it in a thread of its own.
template <typename Stream, typename Array>
bool pull(PyObject* capsule, const char* name, Arrival* arrival) {
  const char* producer = arrival->ingest.producer();
  Released<Stream> owned;
  {
    const Alone alone(capsule);
    Stream* held = held_in<Stream>(capsule, name, producer);
    if (held == nullptr) return false;
    owned.it = move_out(held);
  }
  Stream* stream = &owned.it;
  const Closing<Stream> closing{&owned};
  if (stream->get_schema == nullptr || stream->get_next == nullptr) {
    PyErr_Format(PyExc_BufferError, "the Arrow stream of %s has no functions (NULL)", producer);
    return false;
  }
  Released<ArrowSchema> schema;
  const Closing<ArrowSchema> closing_schema{&schema};
  int code;
  {
    const WithoutGil without(true);
    code = stream->get_schema(stream, &schema.it);
  }
  if (code != 0) {
    schema.it.release = nullptr;
    return stream_failed(stream, code, "give its schema", producer);
  }
  if (!arrival->take_schema(schema.it)) return false;
  for (;;) {
    Array chunk{};
    {
      const WithoutGil without(true);
      code = stream->get_next(stream, &chunk);
    }
    if (code != 0) return stream_failed(stream, code, "give its next chunk", producer);
    Released<ArrowArray> rest;
    const Closing<ArrowArray> closing_rest{&rest};
    bool good;
    if constexpr (std::is_same_v<Array, ArrowDeviceArray>) {
      if (chunk.array.release == nullptr) return true;
      good = arrival->take_device_chunk(&chunk);
      rest.it = chunk.array;
    } else {
      if (chunk.release == nullptr) return true;
      good = arrival->take_chunk(&chunk);
      rest.it = chunk;
    }
    if (!good || PyErr_CheckSignals() != 0) return false;
  }
}

}  // namespace

bool take_arrays(PyObject* schema, PyObject* array, Arrival* arrival) noexcept {
  arrival->route = Route::arrow_array;
  const char* producer = arrival->ingest.producer();
  const Alone alone(array);  // of two threads that were given it one takes it
  const auto* type = held_in<ArrowSchema>(schema, arrow_names::schema, producer);
  if (type == nullptr) return false;
  if (PyCapsule_IsValid(array, arrow_names::device_array)) {
    auto* held = held_in<ArrowDeviceArray>(array, arrow_names::device_array, producer);
    return held != nullptr && arrival->take_schema(*type) && arrival->take_device_chunk(held);
  }
  auto* held = held_in<ArrowArray>(array, arrow_names::array, producer);
  return held != nullptr && arrival->take_schema(*type) && arrival->take_chunk(held);
}

bool take_stream(PyObject* stream, Arrival* arrival) noexcept {
  arrival->route = Route::arrow_stream;
  return PyCapsule_IsValid(stream, arrow_names::device_stream)
             ? pull<ArrowDeviceArrayStream, ArrowDeviceArray>(stream, arrow_names::device_stream,
                                                              arrival)
             : pull<ArrowArrayStream, ArrowArray>(stream, arrow_names::stream, arrival);
}

bool ask_arrow(PyObject* x, Arrival* arrival, bool* applies) noexcept {
  *applies = false;
  if (PyType_Check(x)) return true;
  const Names& n = state.names;
  PyObject* const methods[] = {n.arrow_c_device_array, n.arrow_c_array, n.arrow_c_device_stream,
                               n.arrow_c_stream};
  for (PyObject* name : methods) {
    const Ref method = protocol_attribute(arrival->ingest, name);
    if (!method && PyErr_Occurred()) return false;
    if (!method) continue;
    *applies = true;
    const bool one = name == n.arrow_c_device_array || name == n.arrow_c_array;
    arrival->route = one ? Route::arrow_array : Route::arrow_stream;
    if (!one && arrival->ingest.request.dry != nullptr && PyIter_Check(arrival->ingest.x)) {
      PyErr_Format(PyExc_TypeError,
                   "%s is an iterator, which is read once, and what would become of it is told by "
                   "reading it; read it first, x.read_all(), or take it: candle.from_arrow(x)",
                   arrival->ingest.producer());
      return false;
    }
    Ref given = Ref::steal(PyObject_CallNoArgs(method.get()));
    if (!given) {
      *applies = PyErr_ExceptionMatches(PyExc_ImportError) == 0;
      if (*applies) blame_producer(arrival->ingest.producer());
      return false;
    }
    bool good;
    if (!one) {
      good = take_stream(given.get(), arrival);
    } else if (PyTuple_Check(given.get()) && PyTuple_GET_SIZE(given.get()) == 2) {
      good =
          take_arrays(PyTuple_GET_ITEM(given.get(), 0), PyTuple_GET_ITEM(given.get(), 1), arrival);
    } else {
      PyErr_Format(PyExc_BufferError, "%s.%U() gives %s, not a tuple of two capsules",
                   arrival->ingest.producer(), name, Py_TYPE(given.get())->tp_name);
      good = false;
    }
    const PendingError pending;  // the capsules' destructors may run Python
    given = {};
    return good;
  }
  return true;
}

}  // namespace candle
