#pragma once

/// The types that kernels are compiled for.

#include <cstddef>

#include "addnorm/float16.h"

namespace addnorm::kernels {

/// The number of rows that go through a kernel together.
inline constexpr std::size_t kRowGroup = 4;

/// The storage types of matrices: the residual stream, and branch and output. Double serves
/// references and tests.
#define ADDNORM_FOR_FLOAT_STORAGES(use)                                                \
  use(float, float) use(BFloat16, BFloat16) use(Float16, Float16) use(float, BFloat16) \
      use(float, Float16)
#define ADDNORM_FOR_STORAGES(use) ADDNORM_FOR_FLOAT_STORAGES(use) use(double, double)

}  // namespace addnorm::kernels
