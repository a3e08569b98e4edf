#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "addnorm/matrix.h"
#include "addnorm/nn/probe.h"

namespace addnorm {

/// Records the values at each site that has the stream's width.
class Recorder : public Probe<float> {
 public:
  struct Passage {
    Site site;
    Matrix<float> values;
    Matrix<float> gradients;
  };

  explicit Recorder(std::size_t width) : width_(width) {}

  void forward(const Site& site, MatrixView<const float> values) override {
    if (values.cols == width_) copy(values, passage(site).values);
  }
  void backward(const Site& site, MatrixView<const float> gradients) override {
    if (gradients.cols == width_) copy(gradients, passage(site).gradients);
  }

  /// Returns the first of these sites that exists.
  const Passage& at(const std::vector<Site>& sites) const;

 private:
  static void copy(MatrixView<const float> from, Matrix<float>& to);
  Passage& passage(const Site& site);

  std::size_t width_;
  std::vector<Passage> passages_;
};

/// The root mean square of all values.
double rms(std::span<const float> values);

}  // namespace addnorm
