#include "nn/rope.h"

#include <cmath>

#include "base/parallel.h"
#include "kernels/convert.h"

namespace addnorm {

template <typename T>
void rotate(const Rotary& rotary, std::size_t place, Rotation direction, MatrixView<T> x) {
  using Value = Arithmetic<T>;
  const std::size_t half = rotary.frequencies.size();
  const bool neighbors = rotary.pairs == RotaryPairs::kNeighbors;
  const std::size_t step = neighbors ? 2 : 1;
  const std::size_t distance = neighbors ? 1 : half;
  parallel_for(x.rows, row_grain(x.cols), [&](std::size_t r) {
    const double turns =
        static_cast<double>(place + r) * (direction == Rotation::kForward ? 1 : -1);
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = turns * rotary.frequencies[i];
      const auto cos = static_cast<Value>(rotary.gain * std::cos(angle));
      const auto sin = static_cast<Value>(rotary.gain * std::sin(angle));
      for (std::size_t c = step * i; c < x.cols; c += rotary.d_head) {
        const auto a = static_cast<Value>(x(r, c));
        const auto b = static_cast<Value>(x(r, c + distance));
        x(r, c) = static_cast<T>(a * cos - b * sin);
        x(r, c + distance) = static_cast<T>(b * cos + a * sin);
      }
    }
  });
}

template void rotate(const Rotary&, std::size_t, Rotation, MatrixView<float>);
template void rotate(const Rotary&, std::size_t, Rotation, MatrixView<double>);
template void rotate(const Rotary&, std::size_t, Rotation, MatrixView<BFloat16>);

}  // namespace addnorm
