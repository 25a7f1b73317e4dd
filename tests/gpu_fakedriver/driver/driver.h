// The driver's one state, and the way into it: every entry point does its work within `enter`.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "abi.h"
#include "memory.h"
#include "stream.h"

namespace fake {

constexpr int max_devices = 16;

/// A device's primary context; there are no others. Its address is the handle.
struct Context {
  int device = 0;
  int retained = 0;
};

/// An entry point to fail: after `skip` more calls, `times` times.
struct Fault {
  Result result = success;
  size_t skip = 0;
  size_t times = 0;
};

class Driver {
 public:
  Driver();

  /// The stream a handle names: legacy (0 and 1) and per-thread (2) are those of `device`. Null for
  /// one that was destroyed or never was.
  std::shared_ptr<Stream> stream(Handle handle, int device);
  std::shared_ptr<Stream> legacy(int device);
  Handle create_stream(int device, unsigned flags, int priority);
  bool destroy_stream(Handle handle);
  Event* event(Handle handle);
  Handle create_event(int device);
  bool destroy_event(Handle handle) { return events_.erase(handle) == 1; }
  Context* context(Handle handle);

  /// Queues work behind what the legacy stream's rules say, or notes it in a capture.
  Result enqueue(Stream& stream, std::function<void()> run, int delay_us,
                 std::vector<Point> after = {}, bool late = false);
  /// All that a host has to wait for before a stream counts as done; an error while capturing.
  Result finish(Stream& stream, Point& point);
  std::vector<Point> points(int device);
  /// Blocks until no stream of any device can go on by itself.
  void settle(std::unique_lock<std::mutex>& lock);

  /// Notes work on a stream that captures.
  Result note(Stream& stream);
  /// Makes a stream wait for an event of a capture, and so part of it.
  Result join_capture(Stream& stream, const Event& event);
  Result begin_capture(Stream& stream, bool global);
  Result end_capture(Stream& stream);
  /// What may disturb a capture somewhere breaks it, and is refused.
  Result refuse_while_capturing();

  std::shared_ptr<Block> from_pool(Stream& stream, size_t size);
  Result to_pool(Stream& stream, const std::shared_ptr<Block>& block);

  Result injected(const std::string& name);
  uint64_t trace(std::string line);
  void trace_result(uint64_t number, Result result);
  std::string drain_trace();

  bool initialized = false;
  int devices = 2;
  int delay_us = 2000;
  size_t host_syncs = 0;
  Memory memory;
  Context contexts[max_devices];
  std::map<std::string, Fault> faults;
  std::set<std::string> hidden;  // entry points that are not to be found

 private:
  std::vector<Point> implied(Stream& stream);
  std::shared_ptr<Stream> make(int device, unsigned flags, int priority, bool is_legacy);
  std::shared_ptr<Stream> per_thread(int device);
  Handle new_handle() { return reinterpret_cast<Handle>(last_handle_ += 0x100); }

  std::map<Handle, std::shared_ptr<Stream>> named_;
  std::map<Handle, Event> events_;
  std::vector<std::weak_ptr<Stream>> streams_;  // all that have work or may get some
  std::shared_ptr<Stream> legacy_[max_devices];
  std::vector<std::shared_ptr<Capture>> captures_;
  uintptr_t last_handle_ = 0x5000'0000;  // a handle is never given out again
  uint64_t last_id_ = 0;
  uint64_t last_capture_ = 0;
  std::deque<std::string> trace_;
  uint64_t traced_ = 0;  // lines drained so far
};

Driver& the_driver();

/// The contexts pushed on this thread.
std::vector<Context*>& thread_contexts();
/// The device of the current one; -1 if there is none.
int current_device();

enum class Needs { nothing, init, context };

/// A call in progress: the driver, locked, and the line that the trace will have of it.
struct Call {
  Driver& driver;
  std::unique_lock<std::mutex> lock;
  int device = -1;
  std::string line;
  uint64_t number = 0;

  void say(const char* kind, uint64_t id) { line += std::string(" ") + kind + std::to_string(id); }
  void say(const Stream& stream) { say("s", stream.id); }
  void say(const Event& event) { say("e", event.id); }
  void say_number(uint64_t value) { say("", value); }
  /// Before the lock is let go in a wait, so that the trace has calls in the order of their start.
  void start() {
    if (number == 0) number = driver.trace(std::move(line));
  }
  void block_until(const Point& point) {
    start();
    wait_for(lock, point);
  }
};

/// The name of an entry point, as the driver's documentation has it.
std::string plain_name(const char* name);

template <typename Body>
Result enter(const char* name, Needs needs, Body&& body) {
  Driver& driver = the_driver();
  Call call{driver, std::unique_lock(the_clock().mutex), current_device(), plain_name(name)};
  Result result = driver.injected(call.line);
  if (result == success && needs != Needs::nothing && !driver.initialized) result = not_initialized;
  if (result == success && needs == Needs::context && call.device < 0) result = invalid_context;
  if (result == success) result = body(call);
  call.start();
  if (result != success) driver.trace_result(call.number, result);
  return result;
}

}  // namespace fake
