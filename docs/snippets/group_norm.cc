// GroupNorm of an (N, C, S) tensor, forward and backward. Each group of each sample gets mean 0 and
// deviation 1. Its gradient has no mean and no part along the normalized values.

#include <cmath>
#include <cstdio>
#include <vector>

#include "addnorm/norm.h"

int main() {
  constexpr std::size_t N = 2, C = 4, S = 8;
  std::vector<float> x(N * C * S), y(x.size()), dy(x.size()), dx(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 7) + static_cast<float>(i);
    dy[i] = static_cast<float>(i % 5);
  }
  // docs: group norm
  const addnorm::NormOptions norm{.kind = addnorm::NormKind::kGroup, .groups = 2};
  const std::vector<float> gamma(C, 1.0F), beta(C, 0.0F);
  std::vector<float> d_gamma(C), d_beta(C);
  std::vector<addnorm::NormStatistics<float>> statistics(addnorm::norm_sets(norm, N, C * S, S));
  std::vector<float> workspace(addnorm::norm_workspace(norm, N, C * S, S));

  addnorm::add_norm_forward<float>(norm, {.add = {.x = {x.data(), N, C * S}},
                                          .gamma = gamma,
                                          .beta = beta,
                                          .y = {y.data(), N, C * S},
                                          .statistics = statistics,
                                          .positions = S});
  addnorm::add_norm_backward<float>(norm, {.s = {x.data(), N, C * S},
                                           .statistics = statistics,
                                           .gamma = gamma,
                                           .dy = {dy.data(), N, C * S},
                                           .dx = {dx.data(), N, C * S},
                                           .d_gamma = d_gamma,
                                           .d_beta = d_beta,
                                           .workspace = workspace,
                                           .positions = S});
  // docs: end
  double mean = 0, square = 0, gradient = 0;
  constexpr std::size_t kGroup = C / 2 * S;
  for (std::size_t i = 0; i < kGroup; ++i) {
    mean += y[i] / kGroup;
    square += y[i] * y[i] / kGroup;
    gradient += dx[i] / kGroup;
  }
  const bool normalized = std::abs(mean) < 1e-6 && std::abs(square - 1) < 1e-5;
  std::printf("the first group %s normalized, its mean gradient %s zero\n",
              normalized ? "is" : "is not", std::abs(gradient) < 1e-6 ? "is" : "is not");
  return normalized ? 0 : 1;
}
