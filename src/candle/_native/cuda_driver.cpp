#include "cuda_driver.h"

#include <atomic>
#include <cstdio>
#include <type_traits>

#include "platform.h"

namespace candle::cuda {

namespace {

using Context = void*;
using Event = void*;
using Handle = void*;

#ifdef _WIN32
constexpr const char* library_name = "nvcuda.dll";
#else
constexpr const char* library_name = "libcuda.so.1";
#endif
constexpr int32_t device_limit = 64;
constexpr int oldest_driver = 12000;  // CUDA 12.0, as cuGetProcAddress counts
constexpr unsigned without_timing = 2;

/// The functions of the driver that candle calls. Nothing else of CUDA is used.
struct Driver {
  Result status = no_library;
  Result (*cuInit)(unsigned);
  Result (*cuDevicePrimaryCtxRetain)(Context*, int);
  Result (*cuCtxPushCurrent)(Context);
  Result (*cuCtxPopCurrent)(Context*);
  Result (*cuCtxGetDevice)(int*);
  Result (*cuDevicePrimaryCtxGetState)(int, unsigned*, int*);
  Result (*cuEventCreate)(Event*, unsigned);
  Result (*cuEventRecord)(Event, Handle);
  Result (*cuStreamWaitEvent)(Handle, Event, unsigned);
  Result (*cuEventDestroy)(Event);
  Result (*cuStreamSynchronize)(Handle);
  Result (*cuPointerGetAttributes)(unsigned, const int*, void**, unsigned long long);
  Result (*cuStreamIsCapturing)(Handle, int*);
  Result (*cuGetErrorName)(Result, const char**);  // may be missing

  Driver() noexcept { status = open(); }

 private:
  Result open() noexcept {
    void* library = platform::open_library(library_name);
    if (library == nullptr) return no_library;
    using Finder = Result (*)(const char*, void**, int, uint64_t, void*);
    const auto find =
        reinterpret_cast<Finder>(platform::find_in_library(library, "cuGetProcAddress_v2"));
    if (find == nullptr) return no_entry_point;
    const auto get = [find](const char* name, auto* function) {
      void* found = nullptr;
      const bool has = find(name, &found, oldest_driver, 0, nullptr) == success && found != nullptr;
      *function =
          has ? reinterpret_cast<std::remove_pointer_t<decltype(function)>>(found) : nullptr;
      return has;
    };
    const bool complete =
        get("cuInit", &cuInit) && get("cuDevicePrimaryCtxRetain", &cuDevicePrimaryCtxRetain) &&
        get("cuCtxPushCurrent", &cuCtxPushCurrent) && get("cuCtxPopCurrent", &cuCtxPopCurrent) &&
        get("cuCtxGetDevice", &cuCtxGetDevice) &&
        get("cuDevicePrimaryCtxGetState", &cuDevicePrimaryCtxGetState) &&
        get("cuEventCreate", &cuEventCreate) && get("cuEventRecord", &cuEventRecord) &&
        get("cuStreamWaitEvent", &cuStreamWaitEvent) && get("cuEventDestroy", &cuEventDestroy) &&
        get("cuStreamSynchronize", &cuStreamSynchronize) &&
        get("cuStreamIsCapturing", &cuStreamIsCapturing) &&
        get("cuPointerGetAttributes", &cuPointerGetAttributes);
    if (!complete) return no_entry_point;
    get("cuGetErrorName", &cuGetErrorName);
    return cuInit(0);
  }
};

const Driver& driver() noexcept {
  static const Driver opened;
  return opened;
}

/// Primary contexts, by device; each retained once, for good.
std::atomic<Context> retained[device_limit];

/// Makes the primary context of a device current: a thread that never touched CUDA has none. `pop`
/// ends that.
Result push(int32_t device) noexcept {
  const Driver& cuda = driver();
  if (cuda.status != success) return cuda.status;
  if (device < 0 || device >= device_limit) return no_such_device;
  Context context = retained[device].load(std::memory_order_acquire);
  if (context == nullptr) {  // twice by two threads is one too many, which does no harm
    const Result result = cuda.cuDevicePrimaryCtxRetain(&context, device);
    if (result != success) return result;
    retained[device].store(context, std::memory_order_release);
  }
  return cuda.cuCtxPushCurrent(context);
}

void pop() noexcept {
  Context popped;
  driver().cuCtxPopCurrent(&popped);
}

/// The same for as long as this lives.
class Current {
 public:
  explicit Current(int32_t device) noexcept : result(push(device)) {}
  ~Current() {
    if (result == success) pop();
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  const Result result;
};

Handle handle_of(Stream stream) noexcept { return reinterpret_cast<Handle>(stream); }

/// Whether what is queued on a stream goes into a graph now, and does not run. The legacy stream
/// cannot be captured, and says so with an error while another one is.
bool is_captured(Stream stream) noexcept {
  int status = 0;
  return driver().cuStreamIsCapturing(handle_of(stream), &status) == success && status == 1;
}

}  // namespace

Result order(int32_t device, Stream earlier, Stream later) noexcept {
  if (earlier == later) return success;
  const Current current(device);
  if (current.result != success) return current.result;
  // A graph cannot wait for work outside of it: that would end the capture with an error.
  if (is_captured(later) && !is_captured(earlier)) return success;
  const Driver& cuda = driver();
  // A fresh event each time: one that is kept would have to know of contexts that are reset, and of
  // captures it took part in.
  Event event = nullptr;
  Result result = cuda.cuEventCreate(&event, without_timing);
  if (result != success) return result;
  result = cuda.cuEventRecord(event, handle_of(earlier));
  if (result == success) result = cuda.cuStreamWaitEvent(handle_of(later), event, 0);
  const Result destroyed = cuda.cuEventDestroy(event);
  return result == success ? destroyed : result;
}

Result look_at(int32_t device, Stream stream) noexcept {
  const Current current(device);
  if (current.result != success) return current.result;
  const Driver& cuda = driver();
  Event event = nullptr;
  Result result = cuda.cuEventCreate(&event, without_timing);
  if (result != success) return result;
  result = cuda.cuEventRecord(event, handle_of(stream));
  const Result destroyed = cuda.cuEventDestroy(event);
  return result == success ? destroyed : result;
}

Result wait_for_event(int32_t device, void* event, Stream later) noexcept {
  const Current current(device);
  if (current.result != success) return current.result;
  return driver().cuStreamWaitEvent(handle_of(later), event, 0);
}

Result record_event(int32_t device, Stream stream, void** event) noexcept {
  const Current current(device);
  if (current.result != success) return current.result;
  const Driver& cuda = driver();
  Result result = cuda.cuEventCreate(event, without_timing);
  if (result != success) return result;
  result = cuda.cuEventRecord(*event, handle_of(stream));
  if (result != success) cuda.cuEventDestroy(*event);
  return result;
}

Result destroy_event(int32_t device, void* event) noexcept {
  const Current current(device);
  return current.result == success ? driver().cuEventDestroy(event) : current.result;
}

Result synchronize(int32_t device, Stream stream) noexcept {
  const Current current(device);
  if (current.result != success) return current.result;
  return driver().cuStreamSynchronize(handle_of(stream));
}

Result describe(const void* address, Pointer* pointer) noexcept {
  const Driver& cuda = driver();
  if (cuda.status != success) return cuda.status;
  constexpr int memory_type = 2, is_managed = 8, device_ordinal = 9;  // CUpointer_attribute
  const int wanted[] = {memory_type, is_managed, device_ordinal};
  unsigned type = 0;
  unsigned managed = 0;
  int device = 0;
  void* answers[] = {&type, &managed, &device};
  const Result result = cuda.cuPointerGetAttributes(
      3, wanted, answers, static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(address)));
  if (result != success) return result;
  pointer->type = type == 1   ? MemoryType::host
                  : type == 2 ? MemoryType::device
                              : MemoryType::unknown;
  pointer->managed = managed != 0;
  pointer->device = device;
  return success;
}

int32_t current_device() noexcept {
  const Driver& cuda = driver();
  int device = 0;
  return cuda.status == success && cuda.cuCtxGetDevice(&device) == success ? device : 0;
}

DeviceGuard::DeviceGuard(int32_t device) noexcept {
  const Driver& cuda = driver();
  unsigned flags = 0;
  int active = 0;
  int now = -1;  // a thread may have no device current, which is not device 0
  if (cuda.status != success || (cuda.cuCtxGetDevice(&now) == success && now == device) ||
      cuda.cuDevicePrimaryCtxGetState(device, &flags, &active) != success || active == 0) {
    return;
  }
  pushed_ = push(device) == success;
}

DeviceGuard::~DeviceGuard() {
  if (pushed_) pop();
}

namespace {

const char* remedy_of(Result result) {
  constexpr int not_initialized = 3, invalid_handle = 400;
  constexpr int first_of_capture = 900, last_of_capture = 908;
  if (result == not_initialized)  // cuInit has succeeded, in this process or in its parent
    return ": a child of fork cannot use CUDA after its parent has; start it by spawn";
  if (result == invalid_handle)
    return ": a stream is gone, or another device's; keep its object while work goes on there";
  if (result >= first_of_capture && result <= last_of_capture) {
    return ": within a graph capture, pass the stream that captures, or -1";
  }
  return "";
}

}  // namespace

Words explain(Result result) noexcept {
  Words words;
  const auto say = [&words](const char* text) {
    std::snprintf(words.text, sizeof words.text, "%s", text);
  };
  if (result == no_library) {
    std::snprintf(words.text, sizeof words.text,
                  "there is no CUDA driver (%s); install NVIDIA's driver", library_name);
  } else if (result == no_entry_point) {
    say("the CUDA driver is too old; candle needs that of CUDA 12 or later");
  } else {
    const char* name = nullptr;
    const Driver& cuda = driver();
    if (cuda.cuGetErrorName != nullptr) cuda.cuGetErrorName(result, &name);
    std::snprintf(words.text, sizeof words.text, "the CUDA driver says %s (%d)%s",
                  name == nullptr ? "error" : name, result, remedy_of(result));
  }
  return words;
}

}  // namespace candle::cuda
