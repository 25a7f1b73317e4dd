#include <cstring>
#include <type_traits>

#include "cast_numbers.h"
#include "direct_cast.h"

namespace candle {
namespace {

struct Instructions {
  static constexpr bool has_halves = false;
  static void read_halves(const std::byte*, std::byte*) noexcept {}
  static void write_halves(const std::byte*, std::byte*) noexcept {}
};

}  // namespace
}  // namespace candle

#include "cast_loops.h"

namespace candle {

const CastTable& baseline_casts() noexcept { return table; }

}  // namespace candle
