#pragma once

/// The types that kernels are compiled for.

#include <cstddef>
#include <tuple>

#include "addnorm/float16.h"

namespace addnorm::kernels {

/// The number of rows that go through a kernel together.
inline constexpr std::size_t kRowGroup = 4;

/// The storage types of matrices: the residual stream, and branch and output. Double serves
/// references and tests.
#define ADDNORM_FOR_STORAGES(use)                                                     \
  use(float, float) use(double, double) use(BFloat16, BFloat16) use(Float16, Float16) \
      use(float, BFloat16) use(float, Float16)
template <template <typename, typename> typename F>
using PerStorage = std::tuple<F<float, float>, F<double, double>, F<BFloat16, BFloat16>,
                              F<Float16, Float16>, F<float, BFloat16>, F<float, Float16>>;

}  // namespace addnorm::kernels
