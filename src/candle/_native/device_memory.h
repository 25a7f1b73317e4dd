// Device memory as a producer lends it: what keeps it, and on which streams work on it may be
// pending. Every export makes the consumer's stream wait for those; nothing waits on the host.
#pragma once

#include <atomic>

#include "cuda_driver.h"
#include "decide.h"
#include "pyref.h"
#include "storage.h"
#include "type_record.h"

namespace candle {

struct Tensor;

/// A stream that work may be queued on, and what keeps its handle from being given to another.
struct Pending {
  cuda::Stream stream = 0;  // 0: nothing is known
  Ref object;
  uint64_t thread = 0;  // whose default stream it is, where it is a thread's

  /// The stream as this thread can name it. Another thread's default stream has no name here; the
  /// legacy one comes after all that is queued there, and before all that will be.
  cuda::Stream here() const noexcept;
};

/// What a framework fails to do that raises where its stream is asked for.
inline constexpr char naming_streams[] = "say which stream is current";

/// Where a framework's current stream is found.
struct StreamSource {
  const DLPackExchangeAPI* table = nullptr;  // by its current_work_stream, or
  Ref ask;                                   // a callable: device number -> stream

  explicit operator bool() const { return table != nullptr || ask; }
  /// False with an error set.
  bool current(DLDevice device, Pending* pending) const noexcept;
};

/// How a producer's block came in.
struct Lending {
  /// Rewrites the description of managed memory as that of plain device memory.
  explicit Lending(Source* source) noexcept
      : managed(source->device.device_type == kDLCUDAManaged) {
    if (managed) source->device.device_type = kDLCUDA;
  }
  bool managed;
  const TypeRecord* record = nullptr;  // of a producer with a current stream
  PyObject* producer = nullptr;        // asked again at export
  bool old_signature = false;          // its __dlpack__ has no max_version
  bool by_interface = false;           // it is asked by its __cuda_array_interface__
  PyObject* keeper = nullptr;          // what holds the memory, for the record's `record_stream`
  Pending origin;
};

class DeviceMemory {
 public:
  /// Makes `owner` the owner of a lent block of device memory. False with an error set.
  static bool lend(const Source& source, Owner* owner, Lending&& lending) noexcept;

  bool managed() const noexcept { return managed_; }
  /// Whether no work can be pending: nobody has named a stream, and nobody is there to be asked. A
  /// framework has named one from the first.
  bool idle() const noexcept { return origin_.stream == 0 && !producer_; }
  /// The producer's type, or None. Borrowed.
  PyObject* lender() const noexcept { return lender_ ? lender_.get() : Py_None; }
  /// What gives the memory back.
  const Owner& memory() const noexcept { return memory_; }

  /// Makes a stream wait for all that may be pending. False with a BufferError set.
  bool order_before(cuda::Stream later) noexcept;
  /// Names one stream that comes after all that may be pending. False with a BufferError set.
  bool gather(cuda::Stream* stream) noexcept;
  /// The same for memory of a device that candle cannot order work on: the producer is asked, with
  /// the consumer's own word for its stream.
  bool relay(PyObject* stream) noexcept;
  /// Waits, without the GIL, until nothing is pending. False with a BufferError set.
  bool wait() noexcept;
  /// Makes the producer's stream wait for `earlier`. False with an error set.
  bool order_after(cuda::Stream earlier) noexcept;
  /// Keeps the memory until what is queued on a stream by its release has run. False with an error
  /// set.
  bool record_stream(PyObject* stream) noexcept;

  /// As Owner::give_back.
  static void give_back(DeviceMemory* block, bool have_gil) noexcept;

 private:
  struct Recorded;
  DeviceMemory() = default;
  ~DeviceMemory() = default;

  /// The streams to wait for, without repetition. False with an error set.
  static constexpr int most_sources = 2;
  bool sources(Pending* pending, int* count) noexcept;
  bool ask_again(PyObject* stream) noexcept;
  /// False with a BufferError set where the producer has a stream that candle cannot name.
  bool knows_stream(const char* method) const noexcept;
  /// False with a BufferError set where the producer names another address than it did.
  bool still_there(const std::byte* now) const noexcept;

  Owner memory_;
  DLDevice device_ = {kDLCUDA, 0};
  const std::byte* data_ = nullptr;  // of memory with elements
  bool managed_ = false;
  bool old_signature_ = false;
  bool by_interface_ = false;
  StreamSource framework_;
  Ref lender_;
  Ref producer_;  // if it is to be asked again: by its interface, or for a capsule
  Ref keeper_;
  Ref recorder_;
  Ref guard_;  // makes the device current in the producer's framework
  Pending origin_;
  std::atomic<Recorded*> recorded_{nullptr};  // several threads may add to it
};

/// The stream an object stands for: an int, or what its `__cuda_stream__` says. False with an error
/// set.
bool parse_stream_object(PyObject* object, Pending* pending) noexcept;

/// `stream=` of a consumer of CUDA memory, by DLPack's rules: None and 0 are the legacy default
/// stream. `ordered` is false for -1. False with a ValueError set.
bool parse_consumer_stream(PyObject* stream, cuda::Stream* later, bool* ordered) noexcept;

/// Where the `stream` entry of a CUDA array interface says that work is pending: None or absent:
/// nowhere. False with a BufferError set.
bool interface_stream(PyObject* interface, Pending* pending) noexcept;

/// The address in a CUDA array interface; nullptr, no error, where it has none.
const std::byte* interface_address(PyObject* interface) noexcept;

/// Sets a BufferError that says what the CUDA driver answered.
void cuda_failed(const char* doing, cuda::Result result) noexcept;

inline bool cuda_memory(DLDevice device) { return device.device_type == kDLCUDA; }

/// Makes a consumer's stream wait for what may be pending on a tensor's memory: `later` on a CUDA
/// device, else `stream`, the consumer's own word for it (nullptr: None). False with an error set.
bool order_for(Tensor* tensor, PyObject* stream, cuda::Stream later) noexcept;

// Methods of Tensor and of the module.
PyObject* record_stream(PyObject* self, PyObject* stream);
PyObject* wait_for(PyObject* self, PyObject* stream);

}  // namespace candle
