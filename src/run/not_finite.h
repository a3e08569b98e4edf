#pragma once

#include <optional>
#include <string>

#include "addnorm/nn/probe.h"

namespace addnorm::run {

/// A probe that records where an infinite value or gradient, or NaN, appears first.
class FirstNotFinite : public Probe<float> {
 public:
  void forward(const Site& site, MatrixView<const float> values) override;
  void backward(const Site& site, MatrixView<const float> gradients) override;

  /// Returns "first in forward at layer 3, feed_forward, branch"; empty if everything was finite.
  std::string description() const;

 private:
  void look(const Site& site, MatrixView<const float> values, const char* way);

  std::optional<Site> site_;
  const char* way_ = "";
};

}  // namespace addnorm::run
