#pragma once

#include <cmath>
#include <cstddef>

#include "addnorm/nn/pass.h"

namespace addnorm::testing {

/// Sublayer number `site` of generate_lanes.py: f_c = (0.5 + 0.1·c)·tanh(h_{c − site − 1}). If
/// several mixes are read, h is the first plus twice the second plus three times the third.
class Turned final : public Sublayer<double> {
 public:
  explicit Turned(std::size_t site) : site_(site) {}

  void forward(MatrixView<const double> x, MatrixView<double> y, const Pass<double>&) override {
    for_each(y, [&](std::size_t r, std::size_t c, std::size_t from, double factor) {
      y(r, c) = factor * std::tanh(mixed(x, y.rows, r, from));
    });
  }
  void backward(MatrixView<const double> x, MatrixView<const double> dy, MatrixView<double> dx,
                const Pass<double>&) override {
    for_each(dy, [&](std::size_t r, std::size_t c, std::size_t from, double factor) {
      const double t = std::tanh(mixed(x, dy.rows, r, from));
      for (std::size_t i = 0; i < x.rows / dy.rows; ++i) {
        dx(i * dy.rows + r, from) = static_cast<double>(i + 1) * factor * (1 - t * t) * dy(r, c);
      }
    });
  }

 private:
  static double mixed(MatrixView<const double> x, std::size_t rows, std::size_t r, std::size_t c) {
    double sum = 0;
    for (std::size_t i = 0; i < x.rows / rows; ++i) {
      sum += static_cast<double>(i + 1) * x(i * rows + r, c);
    }
    return sum;
  }
  template <typename Body>
  void for_each(MatrixView<const double> x, const Body& body) const {
    for (std::size_t r = 0; r < x.rows; ++r) {
      for (std::size_t c = 0; c < x.cols; ++c) {
        const std::size_t from = (c + (site_ + 1) * (x.cols - 1)) % x.cols;
        body(r, c, from, 0.5 + 0.1 * static_cast<double>(c));
      }
    }
  }
  std::size_t site_;
};

}  // namespace addnorm::testing
