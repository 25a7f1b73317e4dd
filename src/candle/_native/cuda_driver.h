// The CUDA driver: makes one stream wait for another, waits for one, tells what an address is. It
// is opened when first needed; nothing is linked and no CUDA header is read. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace candle::cuda {

/// A stream as DLPack and the driver number it: 1 the legacy default stream, 2 the calling thread's
/// default stream, else a handle.
using Stream = uintptr_t;
inline constexpr Stream legacy_stream = 1;
inline constexpr Stream per_thread_stream = 2;

/// What the driver answers (a CUresult), or one of the negative codes below.
using Result = int;
inline constexpr Result success = 0;
inline constexpr Result no_library = -1;      // there is no driver
inline constexpr Result no_entry_point = -2;  // it lacks a function that candle calls
inline constexpr Result no_such_device = 101;

/// Makes `later` wait for everything that is queued on `earlier` by now. Never blocks the host;
/// calls nothing where they are the same. While `later` is captured into a graph, it waits only for
/// work that is captured too.
Result order(int32_t device, Stream earlier, Stream later) noexcept;

/// Whether there is such a stream on a device, without any effect on it: what is recorded there,
/// nobody waits for.
Result look_at(int32_t device, Stream stream) noexcept;

/// Makes a stream wait for an event that somebody else has recorded.
Result wait_for_event(int32_t device, void* event, Stream later) noexcept;

/// An event that is over when everything queued on a stream by now has run; whoever asked for it
/// destroys it.
Result record_event(int32_t device, Stream stream, void** event) noexcept;
Result destroy_event(int32_t device, void* event) noexcept;

/// Blocks until everything queued on a stream has run. Needs no GIL.
Result synchronize(int32_t device, Stream stream) noexcept;

enum class MemoryType : uint8_t { unknown, host, device };

struct Pointer {
  MemoryType type = MemoryType::unknown;
  bool managed = false;
  int32_t device = 0;  // of device and managed memory
};

/// What the driver knows of an address; creates no context. Memory that is not CUDA's is `unknown`.
Result describe(const void* address, Pointer* pointer) noexcept;

/// The device that is current on this thread, as the CUDA runtime sees it: 0 before there is one,
/// or where there is no driver.
int32_t current_device() noexcept;

/// Makes a device current on this thread for as long as this lives, where it is in use and another
/// one is current. Creates no context, and does nothing without a driver.
class DeviceGuard {
 public:
  explicit DeviceGuard(int32_t device) noexcept;
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  bool pushed_ = false;
};

/// A result in words, with the remedy where there is one.
struct Words {
  char text[200];
};
Words explain(Result result) noexcept;

}  // namespace candle::cuda
