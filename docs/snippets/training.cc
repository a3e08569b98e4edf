// One sublayer of a pre-norm stack, forward and backward: h = norm(x), s = x + F(h) with F(h) = h².
// Its gradient is compared with a central difference.

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "addnorm/norm.h"

using addnorm::MatrixView;
using Vector = std::vector<double>;

constexpr std::size_t rows = 4, features = 8;
constexpr addnorm::NormOptions norm{.epsilon = 1e-6};

MatrixView<double> view(Vector& values) {
  return {values.data(), rows, features};
}
MatrixView<const double> view(const Vector& values) {
  return {values.data(), rows, features};
}

// docs: sublayer
struct Sublayer {
  Vector gamma = Vector(features, 1.5), d_gamma = Vector(features);
  Vector h = Vector(rows * features), f = h;
  std::vector<addnorm::NormStatistics<double>> statistics{rows};
  Vector workspace = Vector(addnorm::add_norm_workspace(rows, features));

  void forward(const Vector& x, Vector& s) {
    addnorm::add_norm_forward<double>(
        norm, {.add = {.x = view(x)}, .gamma = gamma, .y = view(h), .statistics = statistics});
    for (std::size_t i = 0; i < h.size(); ++i) f[i] = h[i] * h[i];
    addnorm::residual_add<double>({.x = view(x), .branch = view(f)}, view(s));
  }

  /// Computes dx from ds, and adds to d_gamma.
  void backward(const Vector& x, const Vector& ds, Vector& dx) {
    Vector dh(rows * features);
    for (std::size_t i = 0; i < h.size(); ++i) dh[i] = 2 * h[i] * ds[i];
    addnorm::add_norm_backward<double>(norm, {.s = view(x),
                                              .statistics = statistics,
                                              .gamma = gamma,
                                              .dy = view(dh),
                                              .d_residual = view(ds),  // the gradient past F
                                              .dx = view(dx),
                                              .d_gamma = d_gamma,
                                              .workspace = workspace});
  }
};
// docs: end

int main() {
  std::mt19937 generator(0);
  std::normal_distribution<double> normal;
  Vector x(rows * features), s(x.size()), ds(x.size()), dx(x.size());
  for (double& value : x) value = normal(generator);
  for (double& value : ds) value = normal(generator);

  Sublayer sublayer;
  sublayer.forward(x, s);
  sublayer.backward(x, ds, dx);

  auto loss = [&](std::size_t i, double step) {
    Vector moved = x, sum(x.size());
    moved[i] += step;
    Sublayer().forward(moved, sum);
    double total = 0;
    for (std::size_t j = 0; j < sum.size(); ++j) total += ds[j] * sum[j];
    return total;
  };
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double difference = (loss(i, 1e-5) - loss(i, -1e-5)) / 2e-5;
    largest = std::max(largest, std::abs(dx[i] - difference));
  }
  std::printf("dx is the central difference within 1e-7: %s\n", largest < 1e-7 ? "yes" : "no");
}
