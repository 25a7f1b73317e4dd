#include <cstring>
#include <type_traits>

#include "cast_numbers.h"
#include "direct_cast.h"

namespace candle {
namespace {

template <class From, class To>
struct Block {
  static constexpr bool exists = false;
};

template <class Word>
struct AnyBit {
  static constexpr bool exists = false;
};

}  // namespace
}  // namespace candle

#include "cast_loops.h"

namespace candle {

const CastTable& baseline_casts() noexcept { return table; }

}  // namespace candle
