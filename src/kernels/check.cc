#include "kernels/check.h"

#include <cmath>

namespace addnorm::kernels {

void check_norm_options(std::string_view where, const NormOptions& options, std::size_t set_size) {
  require(std::isfinite(options.epsilon) && options.epsilon >= 0,
          "{}: epsilon is {}, must be a finite number that is not negative", where,
          options.epsilon);
  constexpr double kMost = 1e30;  // so that a float can hold it, and its root times any scale
  require(options.epsilon <= kMost, "{}: epsilon is {}, must be at most {}", where, options.epsilon,
          kMost);
  require(std::isfinite(options.output_scale), "{}: output_scale is {}, must be finite", where,
          options.output_scale);
  require(set_size > 0,
          "{}: there are no values to normalize: the input is absent, or has no features", where);
  require(options.variance == Variance::kPopulation || set_size > 1,
          "{}: the unbiased variance needs at least 2 values, there is 1", where);
}

void check_samples(std::string_view where, std::string_view name, std::size_t samples,
                   std::size_t rows) {
  require(samples > 0 && rows % samples == 0,
          "{}: {} has {} samples, which must divide the {} rows", where, name, samples, rows);
}

}  // namespace addnorm::kernels
