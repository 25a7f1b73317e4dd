// A row of things that grows, and says so where there is no memory: the standard's would end the
// process. No Python here.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace candle {

template <typename T>
class Grown {
 public:
  Grown() noexcept = default;
  ~Grown() {
    for (int64_t i = 0; i < size_; i++) items_[i].~T();
    std::free(items_);
  }
  Grown(const Grown&) = delete;
  Grown& operator=(const Grown&) = delete;

  /// A fresh item at the end; nullptr where there is no memory. Items before it may have moved.
  T* add() noexcept {
    if (size_ == room_ && !grow()) return nullptr;
    T* block = items_ + size_++;
    return new (block) T;
  }
  int64_t size() const noexcept { return size_; }
  T& operator[](int64_t i) noexcept { return items_[i]; }
  const T& operator[](int64_t i) const noexcept { return items_[i]; }

 private:
  bool grow() noexcept {
    const int64_t room = room_ == 0 ? 1 : 2 * room_;
    auto* larger = static_cast<T*>(std::malloc(static_cast<size_t>(room) * sizeof(T)));
    if (larger == nullptr) return false;
    for (int64_t i = 0; i < size_; i++) {
      T* block = larger + i;
      new (block) T(std::move(items_[i]));
      items_[i].~T();
    }
    std::free(items_);
    items_ = larger;
    room_ = room;
    return true;
  }

  T* items_ = nullptr;
  int64_t size_ = 0;
  int64_t room_ = 0;
};

}  // namespace candle
