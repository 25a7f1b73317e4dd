#include "transfer.h"

#include <cstring>

namespace fake {

Result copy(Call& call, Stream& stream, Address to, Address from, size_t size, int delay_us) {
  if (size == 0) return success;
  const std::optional<Place> target = call.driver.memory.place(to, size);
  const std::optional<Place> source = call.driver.memory.place(from, size);
  if (!target || !source) return invalid_value;
  std::function<void()> run;
  if (source->pageable()) {
    const std::vector<std::byte> now(source->bytes, source->bytes + size);
    run = [=, target = *target] { std::memcpy(target.bytes, now.data(), size); };
  } else {
    run = [=, target = *target, source = *source] {
      std::memmove(target.bytes, source.bytes, size);
    };
  }
  const Result result = call.driver.enqueue(stream, std::move(run), delay_us, {}, true);
  if (result == success && target->pageable()) call.block_until(stream.now());
  return result;
}

Result fill(Call& call, Stream& stream, Address to, std::vector<std::byte> item, size_t count,
            int delay_us) {
  const std::optional<Place> target = call.driver.memory.place(to, item.size() * count);
  if (!target || target->pageable()) return invalid_value;
  auto run = [=, target = *target, item = std::move(item)] {
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(target.bytes + i * item.size(), item.data(), item.size());
    }
  };
  return call.driver.enqueue(stream, std::move(run), delay_us, {}, true);
}

}  // namespace fake
