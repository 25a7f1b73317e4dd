// The structs of Arrow's C data, C device data and C stream interfaces, as their specification
// gives them (https://arrow.apache.org/docs/format/CDataInterface.html and the pages beside it).
// No Python here.
//
// A struct whose `release` is NULL is released: nothing else in it may be read. Whoever copies a
// struct's bytes elsewhere and sets the old `release` to NULL has moved it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace candle {

inline constexpr int64_t arrow_nullable = 2;  // of ArrowSchema::flags

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;  // -1: nobody has counted
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

struct ArrowDeviceArray {
  ArrowArray array;
  int64_t device_id;
  int32_t device_type;  // DLPack's number
  void* sync_event;     // of CUDA: a cudaEvent_t*, or NULL
  int64_t reserved[3];
};

struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema*);
  int (*get_next)(ArrowArrayStream*, ArrowArray*);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};

struct ArrowDeviceArrayStream {
  int32_t device_type;
  int (*get_schema)(ArrowDeviceArrayStream*, ArrowSchema*);
  int (*get_next)(ArrowDeviceArrayStream*, ArrowDeviceArray*);
  const char* (*get_last_error)(ArrowDeviceArrayStream*);
  void (*release)(ArrowDeviceArrayStream*);
  void* private_data;
};

static_assert(sizeof(ArrowSchema) == 72 && sizeof(ArrowArray) == 80);
static_assert(sizeof(ArrowDeviceArray) == 128 && offsetof(ArrowDeviceArray, sync_event) == 96);
static_assert(sizeof(ArrowArrayStream) == 40 && sizeof(ArrowDeviceArrayStream) == 48);

namespace arrow_names {

// Of the capsules.
inline constexpr char schema[] = "arrow_schema";
inline constexpr char array[] = "arrow_array";
inline constexpr char stream[] = "arrow_array_stream";
inline constexpr char device_array[] = "arrow_device_array";
inline constexpr char device_stream[] = "arrow_device_array_stream";

// Of the metadata that makes a type of an extension, and of Arrow's own extensions that candle
// knows.
inline constexpr char extension[] = "ARROW:extension:name";
inline constexpr char extension_metadata[] = "ARROW:extension:metadata";
inline constexpr char tensor[] = "arrow.fixed_shape_tensor";
inline constexpr char bool8[] = "arrow.bool8";
inline constexpr char opaque[] = "arrow.opaque";

// By which opaque elements are known to be candle's.
inline constexpr char vendor[] = "candle";

}  // namespace arrow_names

/// Moves a struct out of its place.
template <typename Struct>
Struct move_out(Struct* from) noexcept {
  Struct moved = *from;
  from->release = nullptr;
  return moved;
}

/// A struct that is ours, released when this goes.
template <typename Struct>
class Released {
 public:
  Released() noexcept { it.release = nullptr; }
  ~Released() { reset(); }
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;

  void reset() noexcept {
    if (it.release != nullptr) it.release(&it);
    it.release = nullptr;
  }

  Struct it{};
};

}  // namespace candle
