#pragma once

#include <algorithm>

#include "addnorm/nn/pass.h"
#include "addnorm/norm.h"

namespace addnorm::lab {

/// Outputs given values, or 0, for any input.
class GivenSublayer final : public Sublayer<double> {
 public:
  explicit GivenSublayer(MatrixView<const double> values = {}) : values_(values) {}

  void forward(MatrixView<const double>, MatrixView<double> y, const Pass<double>&) override {
    if (values_.empty()) {
      std::fill_n(y.data, y.size(), 0.0);
    } else {
      residual_add<double>({.x = values_}, y);
    }
  }
  void backward(MatrixView<const double>, MatrixView<const double>, MatrixView<double> dx,
                const Pass<double>&) override {
    std::fill_n(dx.data, dx.size(), 0.0);
  }

 private:
  MatrixView<const double> values_;
};

}  // namespace addnorm::lab
