#include "stream.h"

#include <chrono>
#include <thread>
#include <utility>

namespace fake {

Clock& the_clock() {
  static Clock* clock = new Clock;
  return *clock;
}

void wait_for(std::unique_lock<std::mutex>& lock, const Point& point) {
  point.stream->want(point.upto);
  the_clock().moved.notify_all();
  the_clock().moved.wait(lock, [&] { return point.stream->reached(point.upto); });
}

bool Stream::held_back() const {
  return the_clock().held && current_.late && current_.number > wanted_;
}

bool Stream::stuck() const {
  if (awaited_ != nullptr) return !awaited_->stream->reached(awaited_->upto);
  return about_to_run_ ? held_back() : idle();
}

void Stream::want(uint64_t number) {
  if (number <= wanted_) return;
  wanted_ = number;
  for (const Point& point : current_.after) point.stream->want(point.upto);
  for (const Work& work : queue_) {
    if (work.number > number) break;
    for (const Point& point : work.after) point.stream->want(point.upto);
  }
}

void Stream::push(Work&& work) {
  work.number = ++queued_;
  queue_.push_back(std::move(work));
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
  Clock& clock = the_clock();
  std::unique_lock lock(clock.mutex);
  const auto wait_until = [&](auto&& ready) {
    clock.moved.notify_all();  // it may just have got stuck
    clock.moved.wait(lock, ready);
  };
  while (true) {
    clock.moved.wait(lock, [&] { return self->closed_ || !self->queue_.empty(); });
    if (self->queue_.empty()) return;
    Work& work = self->current_;
    work = std::move(self->queue_.front());
    self->queue_.pop_front();
    for (const Point& point : work.after) {
      self->awaited_ = &point;
      wait_until([&] { return point.stream->reached(point.upto); });
      self->awaited_ = nullptr;
    }
    self->about_to_run_ = true;
    wait_until([&] { return !self->held_back(); });
    self->about_to_run_ = false;
    lock.unlock();
    if (work.delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(work.delay_us));
    if (work.run) work.run();
    lock.lock();
    const Work over = std::exchange(work, {});
    ++self->done_;
    clock.moved.notify_all();
  }
}

}  // namespace fake
