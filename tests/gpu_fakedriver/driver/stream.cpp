#include "stream.h"

#include <chrono>
#include <thread>

namespace fake {

Clock& the_clock() {
  static Clock* clock = new Clock;
  return *clock;
}

void wait_for(std::unique_lock<std::mutex>& lock, const Point& point) {
  the_clock().moved.wait(lock, [&] { return point.stream->reached(point.upto); });
}

void Stream::push(Work&& work) {
  queue_.push_back(std::move(work));
  ++queued_;
  if (!started_) {
    started_ = true;
    std::thread(run, shared_from_this()).detach();
  }
  the_clock().moved.notify_all();
}

void Stream::close() {
  closed_ = true;
  the_clock().moved.notify_all();
}

void Stream::run(std::shared_ptr<Stream> self) {
  std::unique_lock lock(the_clock().mutex);
  while (true) {
    the_clock().moved.wait(lock, [&] { return self->closed_ || !self->queue_.empty(); });
    if (self->queue_.empty()) return;
    Work work = std::move(self->queue_.front());
    self->queue_.pop_front();
    for (const Point& point : work.after) wait_for(lock, point);
    lock.unlock();
    if (work.delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(work.delay_us));
    if (work.run) work.run();
    work = {};  // what it holds may be freed by this, which is none of the others' business
    lock.lock();
    ++self->done_;
    the_clock().moved.notify_all();
  }
}

}  // namespace fake
