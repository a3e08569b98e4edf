#pragma once

#include "addnorm/norm.h"

namespace addnorm::theory {

/// The kernel of Gaussian u and v with mean 0, variance q each and covariance c.
struct GaussianKernel {
  double value = 0;  ///< E[φ(u)·φ(v)]
  double slope = 0;  ///< E[φ′(u)·φ′(v)]
};

/// Returns the kernel with φ = tanh for kDyT, by quadrature, and φ = erf for kDerf (Williams 1997).
/// |c| ≤ q.
GaussianKernel gaussian_kernel(NormKind kind, double q, double c);

}  // namespace addnorm::theory
