#include "nn/rope.h"

#include <cmath>

#include "base/parallel.h"
#include "kernels/convert.h"

namespace addnorm {

template <typename T>
void rotate(std::span<const double> frequencies, std::size_t place, Rotation direction,
            MatrixView<T> x) {
  using Value = Arithmetic<T>;
  const std::size_t half = frequencies.size();
  parallel_for(x.rows, row_grain(x.cols), [&](std::size_t r) {
    const double turns =
        static_cast<double>(place + r) * (direction == Rotation::kForward ? 1 : -1);
    for (std::size_t i = 0; i < half; ++i) {
      const auto cos = static_cast<Value>(std::cos(turns * frequencies[i]));
      const auto sin = static_cast<Value>(std::sin(turns * frequencies[i]));
      for (std::size_t c = i; c < x.cols; c += 2 * half) {
        const auto a = static_cast<Value>(x(r, c));
        const auto b = static_cast<Value>(x(r, c + half));
        x(r, c) = static_cast<T>(a * cos - b * sin);
        x(r, c + half) = static_cast<T>(b * cos + a * sin);
      }
    }
  });
}

template void rotate(std::span<const double>, std::size_t, Rotation, MatrixView<float>);
template void rotate(std::span<const double>, std::size_t, Rotation, MatrixView<double>);
template void rotate(std::span<const double>, std::size_t, Rotation, MatrixView<BFloat16>);

}  // namespace addnorm
