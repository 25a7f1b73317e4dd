// Copies and fills, queued or waited for.
#include "transfer.h"

using namespace fake;

namespace {

Result queue_copy(const char* name, Address to, Address from, size_t size, Handle handle,
                  bool wait = false) {
  return enter(name, Needs::context, [&](Call& call) -> Result {
    const std::shared_ptr<Stream> stream = call.driver.stream(handle, call.device);
    if (stream == nullptr) return invalid_handle;
    call.say(*stream);
    call.say_number(size);
    const Result result = copy(call, *stream, to, from, size, call.driver.delay_us);
    if (result == success && wait) {
      ++call.driver.host_syncs;
      call.block_until(stream->now());
    }
    return result;
  });
}

template <typename T>
Result queue_fill(const char* name, Address to, T item, size_t count, Handle handle,
                  bool wait = false) {
  return enter(name, Needs::context, [&](Call& call) -> Result {
    const std::shared_ptr<Stream> stream = call.driver.stream(handle, call.device);
    if (stream == nullptr) return invalid_handle;
    call.say(*stream);
    const auto* bytes = reinterpret_cast<const std::byte*>(&item);
    const Result result =
        fill(call, *stream, to, {bytes, bytes + sizeof item}, count, call.driver.delay_us);
    if (result == success && wait) call.block_until(stream->now());
    return result;
  });
}

}  // namespace

FAKE_API Result cuMemcpyAsync(Address to, Address from, size_t size, Handle stream) {
  return queue_copy(__func__, to, from, size, stream);
}

FAKE_API Result cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t size, Handle stream) {
  return queue_copy(__func__, to, as_address(from), size, stream);
}

FAKE_API Result cuMemcpyDtoHAsync_v2(void* to, Address from, size_t size, Handle stream) {
  return queue_copy(__func__, as_address(to), from, size, stream);
}

FAKE_API Result cuMemcpyDtoDAsync_v2(Address to, Address from, size_t size, Handle stream) {
  return queue_copy(__func__, to, from, size, stream);
}

FAKE_API Result cuMemcpyPeerAsync(Address to, Handle, Address from, Handle, size_t size,
                                  Handle stream) {
  return queue_copy(__func__, to, from, size, stream);
}

FAKE_API Result cuMemcpy(Address to, Address from, size_t size) {
  return queue_copy(__func__, to, from, size, nullptr, true);
}

FAKE_API Result cuMemcpyHtoD_v2(Address to, const void* from, size_t size) {
  return queue_copy(__func__, to, as_address(from), size, nullptr, true);
}

FAKE_API Result cuMemcpyDtoH_v2(void* to, Address from, size_t size) {
  return queue_copy(__func__, as_address(to), from, size, nullptr, true);
}

FAKE_API Result cuMemcpyDtoD_v2(Address to, Address from, size_t size) {
  return queue_copy(__func__, to, from, size, nullptr, true);
}

FAKE_API Result cuMemsetD8Async(Address to, unsigned char item, size_t count, Handle stream) {
  return queue_fill(__func__, to, item, count, stream);
}

FAKE_API Result cuMemsetD16Async(Address to, unsigned short item, size_t count, Handle stream) {
  return queue_fill(__func__, to, item, count, stream);
}

FAKE_API Result cuMemsetD32Async(Address to, unsigned item, size_t count, Handle stream) {
  return queue_fill(__func__, to, item, count, stream);
}

FAKE_API Result cuMemsetD8_v2(Address to, unsigned char item, size_t count) {
  return queue_fill(__func__, to, item, count, nullptr, true);
}

FAKE_API Result cuMemsetD32_v2(Address to, unsigned item, size_t count) {
  return queue_fill(__func__, to, item, count, nullptr, true);
}
