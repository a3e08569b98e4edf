#include "addnorm/nn/relative_bias.h"

#include <algorithm>
#include <cmath>

namespace addnorm {

std::size_t RelativeBias::bucket(std::size_t query, std::size_t key) const {
  const std::size_t direction = buckets / 2;
  const std::size_t exact = direction / 2;
  const std::size_t first = key > query ? direction : 0;
  const std::size_t distance = key > query ? key - query : query - key;
  if (distance < exact) return first + distance;
  // In float32, as the models were trained: at powers of two the quotient is an integer.
  const float share = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                      std::log(static_cast<float>(max_distance) / static_cast<float>(exact));
  const auto step = static_cast<std::size_t>(share * static_cast<float>(direction - exact));
  return first + std::min(exact + step, direction - 1);
}

}  // namespace addnorm
