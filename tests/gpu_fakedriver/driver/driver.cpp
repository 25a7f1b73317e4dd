#include "driver.h"

#include <algorithm>
#include <cstring>

namespace fake {

Driver& the_driver() {
  static Driver* driver = new Driver;  // never destroyed: streams are at work until the very end
  return *driver;
}

std::vector<Context*>& thread_contexts() {
  static thread_local std::vector<Context*> contexts;
  return contexts;
}

int current_device() {
  const std::vector<Context*>& contexts = thread_contexts();
  return contexts.empty() || contexts.back() == nullptr ? -1 : contexts.back()->device;
}

std::string plain_name(const char* name) {
  std::string plain = name;
  const size_t length = plain.size();
  if (length > 3 && plain[length - 3] == '_' && plain[length - 2] == 'v') plain.resize(length - 3);
  return plain;
}

Driver::Driver() {
  for (int device = 0; device < max_devices; ++device) contexts[device].device = device;
}

std::shared_ptr<Stream> Driver::make(int device, unsigned flags, int priority, bool is_legacy) {
  auto stream =
      std::make_shared<Stream>(StreamTraits{device, flags, priority, ++last_id_, is_legacy});
  std::erase_if(streams_, [](const auto& each) { return each.expired(); });
  streams_.push_back(stream);
  return stream;
}

std::shared_ptr<Stream> Driver::legacy(int device) {
  if (legacy_[device] == nullptr) legacy_[device] = make(device, stream_default, 0, true);
  return legacy_[device];
}

std::shared_ptr<Stream> Driver::per_thread(int device) {
  struct Own {
    std::shared_ptr<Stream> streams[max_devices];
    ~Own() {
      std::unique_lock lock(the_clock().mutex);
      for (const auto& stream : streams) {
        if (stream != nullptr) stream->close();
      }
    }
  };
  static thread_local Own own;
  std::shared_ptr<Stream>& stream = own.streams[device];
  if (stream == nullptr) stream = make(device, stream_default, 0, false);
  return stream;
}

std::shared_ptr<Stream> Driver::stream(Handle handle, int device) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number <= 2) {
    if (device < 0) return nullptr;
    return number == 2 ? per_thread(device) : legacy(device);
  }
  auto found = named_.find(handle);
  return found == named_.end() ? nullptr : found->second;
}

Handle Driver::create_stream(int device, unsigned flags, int priority) {
  const Handle handle = new_handle();
  named_.emplace(handle, make(device, flags, priority, false));
  return handle;
}

bool Driver::destroy_stream(Handle handle) {
  auto found = named_.find(handle);
  if (found == named_.end()) return false;
  for (const auto& block : found->second->pool) memory.release(block);
  found->second->close();
  named_.erase(found);
  return true;
}

Event* Driver::event(Handle handle) {
  auto found = events_.find(handle);
  return found == events_.end() ? nullptr : &found->second;
}

Handle Driver::create_event(int device) {
  const Handle handle = new_handle();
  Event& event = events_[handle];
  event.device = device;
  event.id = ++last_id_;
  return handle;
}

Context* Driver::context(Handle handle) {
  for (int device = 0; device < devices; ++device) {
    if (handle == &contexts[device]) return &contexts[device];
  }
  return nullptr;
}

std::vector<Point> Driver::points(int device) {
  std::vector<Point> all;
  for (const auto& each : streams_) {
    const std::shared_ptr<Stream> stream = each.lock();
    if (stream != nullptr && stream->device == device && !stream->idle()) {
      all.push_back(stream->now());
    }
  }
  return all;
}

void Driver::settle(std::unique_lock<std::mutex>& lock) {
  the_clock().moved.wait(lock, [&] {
    return std::all_of(streams_.begin(), streams_.end(), [](const auto& each) {
      const std::shared_ptr<Stream> stream = each.lock();
      return stream == nullptr || stream->stuck();
    });
  });
}

std::vector<Point> Driver::implied(Stream& stream) {
  std::vector<Point> before;
  if (!stream.blocking()) return before;
  if (!stream.legacy) {
    if (legacy_[stream.device] != nullptr) before.push_back(legacy_[stream.device]->now());
    return before;
  }
  for (const Point& point : points(stream.device)) {
    if (point.stream.get() != &stream && point.stream->blocking()) before.push_back(point);
  }
  return before;
}

Result Driver::enqueue(Stream& stream, std::function<void()> run, int delay,
                       std::vector<Point> after, bool late) {
  if (stream.capture != nullptr) return run ? note(stream) : success;
  if (stream.legacy) {
    for (const auto& capture : captures_) {
      // The legacy stream would have to wait for what is only being noted.
      for (const auto& member : capture->streams) {
        if (member->device == stream.device && member->blocking()) {
          capture->broken = true;
          return capture_implicit;
        }
      }
    }
  }
  for (Point& point : implied(stream)) after.push_back(std::move(point));
  stream.push({std::move(after), std::move(run), delay, late});
  return success;
}

Result Driver::finish(Stream& stream, Point& point) {
  if (stream.capture != nullptr) {
    stream.capture->broken = true;
    return capture_unsupported;
  }
  if (stream.legacy) {
    if (const Result result = enqueue(stream, nullptr, 0); result != success) return result;
  }
  point = stream.now();
  return success;
}

Result Driver::note(Stream& stream) {
  if (stream.capture->broken) return capture_invalidated;
  ++stream.noted;
  if (stream.capture->origin.get() != &stream) stream.capture->loose.insert(&stream);
  return success;
}

Result Driver::join_capture(Stream& stream, const Event& event) {
  const std::shared_ptr<Capture>& capture = event.capture;
  if (stream.capture != capture) {
    if (stream.capture != nullptr || stream.legacy) {
      capture->broken = true;
      return stream.legacy ? capture_implicit : capture_merge;
    }
    stream.capture = capture;
    capture->streams.push_back(stream.shared_from_this());
  }
  if (event.on.get() != &stream && event.noted == event.on->noted) {
    capture->loose.erase(event.on.get());
  }
  return note(stream);
}

Result Driver::begin_capture(Stream& stream, bool global) {
  if (stream.legacy) return capture_unsupported;
  if (stream.capture != nullptr) return invalid_value;
  auto capture = std::make_shared<Capture>();
  capture->id = ++last_capture_;
  capture->global = global;
  capture->origin = stream.shared_from_this();
  capture->streams.push_back(capture->origin);
  stream.capture = capture;
  captures_.push_back(capture);
  return success;
}

Result Driver::end_capture(Stream& stream) {
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return invalid_value;
  if (capture->origin.get() != &stream) return capture_unmatched;
  for (const auto& member : capture->streams) member->capture = nullptr;
  std::erase(captures_, capture);
  if (capture->broken) return capture_invalidated;
  return capture->loose.empty() ? success : capture_unjoined;
}

Result Driver::refuse_while_capturing() {
  for (const auto& capture : captures_) {
    if (!capture->global) continue;
    capture->broken = true;
    return capture_unsupported;
  }
  return success;
}

std::shared_ptr<Block> Driver::from_pool(Stream& stream, size_t size) {
  auto found = std::find_if(stream.pool.begin(), stream.pool.end(),
                            [&](const auto& block) { return block->size == size; });
  if (found == stream.pool.end()) return nullptr;
  const std::shared_ptr<Block> block = *found;
  stream.pool.erase(found);
  memory.from_pool(*block);
  return block;
}

Result Driver::to_pool(Stream& stream, const std::shared_ptr<Block>& block) {
  constexpr int freed = 0xDD;
  auto spoil = [block] { std::memset(block->bytes, freed, block->size); };
  if (const Result result = enqueue(stream, spoil, 0); result != success) return result;
  memory.to_pool(*block);
  stream.pool.push_back(block);
  return success;
}

Result Driver::injected(const std::string& name) {
  auto found = faults.find(name);
  if (found == faults.end()) return success;
  Fault& fault = found->second;
  if (fault.skip > 0) {
    --fault.skip;
    return success;
  }
  const Result result = fault.result;
  if (--fault.times == 0) faults.erase(found);
  return result;
}

uint64_t Driver::trace(std::string line) {
  trace_.push_back(std::move(line));
  return traced_ + trace_.size();
}

void Driver::trace_result(uint64_t number, Result result) {
  if (number > traced_) trace_[number - traced_ - 1] += " = " + std::to_string(result);
}

std::string Driver::drain_trace() {
  std::string text;
  for (const std::string& line : trace_) text += line + '\n';
  traced_ += trace_.size();
  trace_.clear();
  return text;
}

}  // namespace fake
