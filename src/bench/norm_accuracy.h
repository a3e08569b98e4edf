#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "bench/python_rival.h"

namespace addnorm::bench {

/// A test of LayerNorm without γ and β, and its gradient, on 64 rows of normally distributed
/// float32 values.
struct AccuracyJob {
  std::size_t features = 0;
  double mean = 0;  ///< in standard deviations
  double deviation = 1;

  /// 1e-5, or 0 where it would dominate the variance.
  float epsilon() const { return deviation < 1 ? 0.0F : 1e-5F; }
};

/// Returns jobs with 768 and 4096 features, means up to 1e5 deviations, and deviations from 1e-30
/// to 1e30.
std::vector<AccuracyJob> accuracy_jobs();

/// Largest errors against the reference in float64; NaN or infinite if results are.
struct NormErrors {
  double y = 0;
  double dx = 0;  ///< relative to the largest |dx|
};

struct AccuracyResult {
  AccuracyJob job;
  NormErrors ours;
  std::optional<NormErrors> onednn;  ///< absent in a build without oneDNN
  std::optional<NormErrors> pytorch;
};
AccuracyResult measure_accuracy(const AccuracyJob& job, PythonRival* torch);

}  // namespace addnorm::bench
