// Which blocks of the native core have run: for a core that was built with
// -fsanitize-coverage=trace-pc, which gcc and clang both know.
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace {

constexpr uint32_t places = 1 << 16;
uint8_t now[places];
uint8_t seen[places];
long known = 0;

/// Counts that differ only by much are different: as AFL puts them together.
uint8_t bucket(uint8_t count) {
  for (const uint8_t most : {1, 2, 3, 7, 15, 31, 127}) {
    if (count <= most) return most;
  }
  return 255;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void __sanitizer_cov_trace_pc() {
  const auto pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  uint8_t& count = now[static_cast<uint32_t>((pc * 0x9E3779B97F4A7C15U) >> 48)];
  if (count < 255) count++;
}

/// How many blocks have run that never ran so often before, since the last call.
extern "C" __attribute__((visibility("default"))) long new_edges() {
  long fresh = 0;
  for (uint32_t at = 0; at < places; at += 8) {
    uint64_t eight;
    std::memcpy(&eight, now + at, 8);
    if (eight == 0) continue;
    for (uint32_t i = at; i < at + 8; i++) {
      if (now[i] == 0) continue;
      const uint8_t reached = bucket(now[i]);
      if (reached > seen[i]) {
        if (seen[i] == 0) known++;
        seen[i] = reached;
        fresh++;
      }
      now[i] = 0;
    }
  }
  return fresh;
}

extern "C" __attribute__((visibility("default"))) long edges() { return known; }
