// What a test does to the driver and the devices. None of it needs a context, is traced or counts
// as a call.
#include <algorithm>
#include <cstring>

#include "transfer.h"

using namespace fake;

namespace {

template <typename Body>
auto quietly(int device, Body&& body) {
  Call call{the_driver(), std::unique_lock(the_clock().mutex), device, {}, 1};
  return body(call);
}

template <typename Body>
Result on_stream(int device, Handle handle, Body&& body) {
  return quietly(device, [&](Call& call) -> Result {
    const std::shared_ptr<Stream> stream = call.driver.stream(handle, device);
    return stream == nullptr ? invalid_handle : body(call, *stream);
  });
}

}  // namespace

FAKE_API void fake_configure(int devices, int delay_us) {
  quietly(0, [&](Call& call) {
    call.driver.devices = devices;
    call.driver.delay_us = delay_us;
  });
}

FAKE_API int fake_device_count() {
  return quietly(0, [](Call& call) { return call.driver.devices; });
}

/// The device of this thread's current context; -1 for none.
FAKE_API int fake_current_device() { return current_device(); }

/// Makes a device's primary context current, as the runtime's cudaSetDevice does; -1: none.
FAKE_API void fake_set_device(int device) {
  quietly(0, [&](Call& call) {
    std::vector<Context*>& contexts = thread_contexts();
    if (!contexts.empty()) contexts.pop_back();
    if (device < 0) return;
    call.driver.initialized = true;
    call.driver.contexts[device].retained = std::max(call.driver.contexts[device].retained, 1);
    contexts.push_back(&call.driver.contexts[device]);
  });
}

/// Makes an entry point fail `times` times, after `skip` calls more; 0 times undoes that.
FAKE_API void fake_fail(const char* name, Result result, size_t skip, size_t times) {
  quietly(0, [&](Call& call) {
    if (times == 0) {
      call.driver.faults.erase(plain_name(name));
    } else {
      call.driver.faults[plain_name(name)] = {result, skip, times};
    }
  });
}

/// Makes cuGetProcAddress not find an entry point, as in an older driver.
FAKE_API void fake_hide(const char* name) {
  quietly(0, [&](Call& call) { call.driver.hidden.insert(plain_name(name)); });
}

FAKE_API Handle fake_create_stream(int device, unsigned flags) {
  return quietly(device, [&](Call& call) { return call.driver.create_stream(device, flags, 0); });
}

FAKE_API Result fake_destroy_stream(Handle handle) {
  return quietly(0, [&](Call& call) -> Result {
    return call.driver.destroy_stream(handle) ? success : invalid_handle;
  });
}

/// The number that the trace knows a stream by; 0 for none.
FAKE_API uint64_t fake_stream_id(int device, Handle handle) {
  return quietly(device, [&](Call& call) -> uint64_t {
    const std::shared_ptr<Stream> stream = call.driver.stream(handle, device);
    return stream == nullptr ? 0 : stream->id;
  });
}

FAKE_API Address fake_allocate(int device, size_t size, int kind) {
  return quietly(device, [&](Call& call) -> Address {
    const auto block = call.driver.memory.allocate(size, static_cast<Kind>(kind), device);
    return block == nullptr ? 0 : block->base;
  });
}

/// Frees at once, without waiting for any work.
FAKE_API Result fake_free(Address address) {
  return quietly(0, [&](Call& call) -> Result {
    const std::shared_ptr<Block> block = call.driver.memory.find(address);
    if (block == nullptr || block->base != address) return invalid_value;
    call.driver.memory.release(block);
    return success;
  });
}

/// A kernel that fills memory, `delay_us` after its turn has come.
FAKE_API Result fake_fill(int device, Handle stream, Address to, const void* item, size_t item_size,
                          size_t count, int delay_us) {
  const auto* bytes = static_cast<const std::byte*>(item);
  return on_stream(device, stream, [&](Call& call, Stream& where) {
    return fill(call, where, to, {bytes, bytes + item_size}, count, delay_us);
  });
}

/// A kernel that runs a function of the host, without any lock.
FAKE_API Result fake_launch(int device, Handle stream, HostFunction function, void* data,
                            int delay_us) {
  return on_stream(device, stream, [&](Call& call, Stream& where) {
    return call.driver.enqueue(where, [=] { function(data); }, delay_us, {}, true);
  });
}

/// Holds copies, fills and launches back until the host waits for them, or not any longer.
FAKE_API void fake_hold(int on) {
  quietly(0, [&](Call&) {
    the_clock().held = on != 0;
    the_clock().moved.notify_all();
  });
}

/// What `stream` gets to see: copies on it, and waits for it alone. Of late work that is held back
/// it sees only what it waits for.
FAKE_API Result fake_read(int device, Handle stream, void* to, Address from, size_t size) {
  return on_stream(device, stream, [&](Call& call, Stream& where) -> Result {
    const std::optional<Place> source = call.driver.memory.place(from, size);
    if (!source) return invalid_value;
    auto run = [=, source = *source] { std::memcpy(to, source.bytes, size); };
    if (const Result result = call.driver.enqueue(where, run, 0); result != success) return result;
    const Point point = where.now();
    if (the_clock().held) call.driver.settle(call.lock);
    call.block_until(point);
    return success;
  });
}

/// The bytes behind a device's memory, as of now; null where there is none.
FAKE_API void* fake_bytes(Address address, size_t size) {
  return quietly(0, [&](Call& call) -> void* {
    const std::optional<Place> place = call.driver.memory.place(address, size);
    return place ? place->bytes : nullptr;
  });
}

FAKE_API Result fake_order(int device, Handle from, Handle to) {
  return quietly(device, [&](Call& call) -> Result {
    const std::shared_ptr<Stream> first = call.driver.stream(from, device);
    const std::shared_ptr<Stream> second = call.driver.stream(to, device);
    if (first == nullptr || second == nullptr) return invalid_handle;
    const Result result = call.driver.enqueue(*first, nullptr, 0);
    return result ? result : call.driver.enqueue(*second, nullptr, 0, {first->now()});
  });
}

/// Waits for all streams of all devices.
FAKE_API void fake_drain() {
  quietly(0, [](Call& call) {
    for (int device = 0; device < max_devices; ++device) {
      for (const Point& point : call.driver.points(device)) call.block_until(point);
    }
  });
}

FAKE_API void fake_counters(size_t* out) {
  quietly(0, [&](Call& call) {
    const Usage& usage = call.driver.memory.usage();
    const size_t counters[] = {usage.live, usage.bytes, usage.peak, call.driver.host_syncs};
    std::memcpy(out, counters, sizeof counters);
  });
}

/// How often a device's primary context was retained and not released.
FAKE_API int fake_retained(int device) {
  return quietly(0, [&](Call& call) { return call.driver.contexts[device].retained; });
}

/// Takes all lines; they stay readable until the next call on this thread.
FAKE_API const char* fake_drain_trace() {
  static thread_local std::string text;
  text = quietly(0, [](Call& call) { return call.driver.drain_trace(); });
  return text.c_str();
}
