// Streams, events, captures.
#include "driver.h"

using namespace fake;

namespace {

/// An entry point about one stream.
template <typename Body>
Result with_stream(const char* name, Handle handle, Body&& body) {
  return enter(name, Needs::context, [&](Call& call) -> Result {
    const std::shared_ptr<Stream> stream = call.driver.stream(handle, call.device);
    if (stream == nullptr) return invalid_handle;
    call.say(*stream);
    return body(call, *stream);
  });
}

template <typename Body>
Result with_event(const char* name, Handle handle, Body&& body) {
  return enter(name, Needs::init, [&](Call& call) -> Result {
    Event* event = call.driver.event(handle);
    if (event == nullptr) return invalid_handle;
    call.say(*event);
    return body(call, *event);
  });
}

bool live_capture(const Event& event) {
  return event.capture != nullptr && event.capture->origin->capture == event.capture;
}

}  // namespace

FAKE_API Result cuStreamCreateWithPriority(Handle* handle, unsigned flags, int priority) {
  return enter(__func__, Needs::context, [&](Call& call) -> Result {
    if (flags > stream_non_blocking) return invalid_value;
    *handle = call.driver.create_stream(call.device, flags, priority);
    call.say(*call.driver.stream(*handle, call.device));
    return success;
  });
}

FAKE_API Result cuStreamCreate(Handle* handle, unsigned flags) {
  return cuStreamCreateWithPriority(handle, flags, 0);
}

FAKE_API Result cuStreamDestroy_v2(Handle handle) {
  return with_stream(__func__, handle, [&](Call& call, Stream&) -> Result {
    return call.driver.destroy_stream(handle) ? success : invalid_handle;
  });
}

FAKE_API Result cuStreamGetFlags(Handle handle, unsigned* flags) {
  return with_stream(__func__, handle, [&](Call&, Stream& stream) -> Result {
    *flags = stream.flags;
    return success;
  });
}

FAKE_API Result cuStreamGetPriority(Handle handle, int* priority) {
  return with_stream(__func__, handle, [&](Call&, Stream& stream) -> Result {
    *priority = stream.priority;
    return success;
  });
}

FAKE_API Result cuStreamGetCtx(Handle handle, Handle* context) {
  return with_stream(__func__, handle, [&](Call& call, Stream& stream) -> Result {
    *context = &call.driver.contexts[stream.device];
    return success;
  });
}

FAKE_API Result cuStreamGetCtx_v2(Handle handle, Handle* context, Handle* green) {
  if (green != nullptr) *green = nullptr;
  return cuStreamGetCtx(handle, context);
}

FAKE_API Result cuStreamGetDevice(Handle handle, int* device) {
  return with_stream(__func__, handle, [&](Call&, Stream& stream) -> Result {
    *device = stream.device;
    return success;
  });
}

FAKE_API Result cuStreamGetId(Handle handle, unsigned long long* id) {
  return with_stream(__func__, handle, [&](Call&, Stream& stream) -> Result {
    *id = stream.id;
    return success;
  });
}

FAKE_API Result cuStreamSynchronize(Handle handle) {
  return with_stream(__func__, handle, [&](Call& call, Stream& stream) -> Result {
    Point point;
    if (const Result result = call.driver.finish(stream, point); result != success) return result;
    ++call.driver.host_syncs;
    call.block_until(point);
    return success;
  });
}

FAKE_API Result cuStreamQuery(Handle handle) {
  return with_stream(__func__, handle, [&](Call& call, Stream& stream) -> Result {
    Point point;
    if (const Result result = call.driver.finish(stream, point); result != success) return result;
    return point.stream->reached(point.upto) ? success : not_ready;
  });
}

FAKE_API Result cuStreamWaitEvent(Handle handle, Handle event_handle, unsigned) {
  return with_stream(__func__, handle, [&](Call& call, Stream& stream) -> Result {
    const Event* event = call.driver.event(event_handle);
    if (event == nullptr) return invalid_handle;
    call.say(*event);
    if (live_capture(*event)) return call.driver.join_capture(stream, *event);
    if (event->at == nullptr) return success;
    if (stream.capture != nullptr) {
      // Work outside a capture may not be waited for within it.
      stream.capture->broken = true;
      return capture_isolation;
    }
    return call.driver.enqueue(stream, nullptr, 0, {*event->at});
  });
}

FAKE_API Result cuLaunchHostFunc(Handle handle, HostFunction function, void* data) {
  return with_stream(__func__, handle, [&](Call& call, Stream& stream) -> Result {
    return call.driver.enqueue(stream, [=] { function(data); }, call.driver.delay_us, {}, true);
  });
}

FAKE_API Result cuStreamBeginCapture_v2(Handle handle, int mode) {
  return with_stream(__func__, handle, [&](Call& call, Stream& stream) -> Result {
    return call.driver.begin_capture(stream, mode == 0);
  });
}

FAKE_API Result cuStreamEndCapture(Handle handle, Handle* graph) {
  return with_stream(__func__, handle, [&](Call& call, Stream& stream) -> Result {
    const Result result = call.driver.end_capture(stream);
    // What was noted is not kept: the graph is a name for nothing.
    if (graph != nullptr) *graph = result == success ? reinterpret_cast<Handle>(0x10) : nullptr;
    return result;
  });
}

FAKE_API Result cuStreamIsCapturing(Handle handle, int* status) {
  return with_stream(__func__, handle, [&](Call&, Stream& stream) -> Result {
    const Capture* capture = stream.capture.get();
    *status = capture == nullptr ? capture_status_none
              : capture->broken  ? capture_status_broken
                                 : capture_status_active;
    return success;
  });
}

FAKE_API Result cuStreamGetCaptureInfo_v2(Handle handle, int* status, unsigned long long* id,
                                          Handle* graph, const Handle** dependencies,
                                          size_t* count) {
  if (graph != nullptr) *graph = nullptr;
  if (dependencies != nullptr) *dependencies = nullptr;
  if (count != nullptr) *count = 0;
  return with_stream(__func__, handle, [&](Call&, Stream& stream) -> Result {
    const Capture* capture = stream.capture.get();
    if (id != nullptr) *id = capture == nullptr ? 0 : capture->id;
    *status = capture == nullptr ? capture_status_none
              : capture->broken  ? capture_status_broken
                                 : capture_status_active;
    return success;
  });
}

FAKE_API Result cuThreadExchangeStreamCaptureMode(int*) {
  return enter(__func__, Needs::init, [](Call&) -> Result { return success; });
}

FAKE_API Result cuEventCreate(Handle* handle, unsigned) {
  return enter(__func__, Needs::context, [&](Call& call) -> Result {
    *handle = call.driver.create_event(call.device);
    call.say(*call.driver.event(*handle));
    return success;
  });
}

FAKE_API Result cuEventDestroy_v2(Handle handle) {
  return with_event(__func__, handle, [&](Call& call, Event&) -> Result {
    return call.driver.destroy_event(handle) ? success : invalid_handle;
  });
}

FAKE_API Result cuEventRecord(Handle handle, Handle stream_handle) {
  return with_stream(__func__, stream_handle, [&](Call& call, Stream& stream) -> Result {
    Event* event = call.driver.event(handle);
    if (event == nullptr) return invalid_handle;
    call.say(*event);
    if (event->device != stream.device) return invalid_handle;
    const Result result = call.driver.enqueue(stream, nullptr, 0);
    if (result != success) return result;
    event->capture = stream.capture;
    event->on = stream.shared_from_this();
    event->noted = stream.noted;
    event->at = stream.capture != nullptr ? nullptr : std::make_shared<Point>(stream.now());
    return success;
  });
}

FAKE_API Result cuEventRecordWithFlags(Handle event, Handle stream, unsigned) {
  return cuEventRecord(event, stream);
}

FAKE_API Result cuEventQuery(Handle handle) {
  return with_event(__func__, handle, [&](Call& call, Event& event) -> Result {
    if (live_capture(event)) {
      event.capture->broken = true;
      return captured_event;
    }
    if (const Result result = call.driver.refuse_while_capturing(); result != success)
      return result;
    return event.at == nullptr || event.at->stream->reached(event.at->upto) ? success : not_ready;
  });
}

FAKE_API Result cuEventSynchronize(Handle handle) {
  return with_event(__func__, handle, [&](Call& call, Event& event) -> Result {
    if (live_capture(event)) {
      event.capture->broken = true;
      return captured_event;
    }
    ++call.driver.host_syncs;
    const std::shared_ptr<const Point> at = event.at;
    if (at != nullptr) call.block_until(*at);
    return success;
  });
}

FAKE_API Result cuEventElapsedTime_v2(float* milliseconds, Handle start, Handle end) {
  return enter(__func__, Needs::init, [&](Call& call) -> Result {
    if (call.driver.event(start) == nullptr || call.driver.event(end) == nullptr) {
      return invalid_handle;
    }
    *milliseconds = 1;
    return success;
  });
}
