#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "bench/python_rival.h"

namespace addnorm::bench {

/// LayerNorm without γ and β, and its gradient, of 64 rows of normally distributed float32 values.
struct AccuracyJob {
  std::size_t features = 0;
  double mean = 0;  ///< in standard deviations
  double deviation = 1;

  /// 1e-5, or 0 where that would be all that counts.
  float epsilon() const { return deviation < 1 ? 0.0F : 1e-5F; }
};

/// 768 and 4096 features with means up to 1e5 deviations, and deviations from 1e-30 to 1e30.
std::vector<AccuracyJob> accuracy_jobs();

/// Largest errors against the reference in float64; NaN or infinite where results are.
struct NormErrors {
  double y = 0;
  double dx = 0;  ///< relative to the largest |dx|
};

struct AccuracyResult {
  AccuracyJob job;
  NormErrors ours;
  std::optional<NormErrors> onednn;  ///< none where oneDNN was not built with
  std::optional<NormErrors> pytorch;
};
AccuracyResult measure_accuracy(const AccuracyJob& job, PythonRival* torch);

}  // namespace addnorm::bench
