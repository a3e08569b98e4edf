#include "kernels/aliasing.h"

#include <algorithm>
#include <numeric>

namespace addnorm::kernels {

std::size_t place_in_page(std::initializer_list<const void*> inputs,
                          std::initializer_list<const void*> outputs, std::size_t row_bytes) {
  // Modulo a page, the rows of a matrix are multiples of this apart.
  const std::size_t period = std::gcd(kPage, row_bytes);
  const auto up = [&](std::uintptr_t from, std::uintptr_t to) {
    return (to - from - 1) % period + 1;  // from 1 to `period`
  };
  std::size_t best = 0, farthest = 0;
  for (std::size_t place = 0; place < period; place += kLine) {
    std::size_t distance = period;
    for (const void* input : inputs) {
      const auto at = reinterpret_cast<std::uintptr_t>(input);
      if (at != 0) distance = std::min(distance, up(at, place));
    }
    for (const void* output : outputs) {
      const auto at = reinterpret_cast<std::uintptr_t>(output);
      if (at != 0) distance = std::min(distance, up(place, at));
    }
    if (distance > farthest) {
      farthest = distance;
      best = place;
    }
  }
  return best;
}

}  // namespace addnorm::kernels
