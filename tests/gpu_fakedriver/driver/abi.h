// The part of the CUDA driver's ABI that this library offers. Written down here, so that nothing of
// CUDA is needed to build it.
#pragma once

#include <cstddef>
#include <cstdint>

#define FAKE_API extern "C" __attribute__((visibility("default")))

namespace fake {

using Result = int;
using Address = unsigned long long;  // CUdeviceptr
using Handle = void*;                // of a stream, event, context, pool or graph
using HostFunction = void (*)(void*);

enum : Result {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  no_device = 100,
  invalid_device = 101,
  invalid_context = 201,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  not_supported = 801,
  capture_unsupported = 900,
  capture_invalidated = 901,
  capture_merge = 902,
  capture_unmatched = 903,
  capture_unjoined = 904,
  capture_isolation = 905,
  capture_implicit = 906,
  captured_event = 907,
};

enum : unsigned { stream_default = 0, stream_non_blocking = 1 };

enum : int { capture_status_none = 0, capture_status_active = 1, capture_status_broken = 2 };

enum class Attribute : int {
  context = 1,
  memory_type = 2,
  device_pointer = 3,
  host_pointer = 4,
  buffer_id = 7,
  is_managed = 8,
  device_ordinal = 9,
  range_start = 11,
  range_size = 12,
  mapped = 13,
};

inline Address as_address(const void* pointer) { return reinterpret_cast<Address>(pointer); }

}  // namespace fake
