#include "kernels/reference.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace addnorm::kernels::reference {
namespace {

/// The index of each value's set, and the sizes of sets.
struct Sets {
  const Norm& norm;

  std::size_t channel(std::size_t i) const {
    return i / norm.shape.positions % norm.shape.channels;
  }
  std::size_t operator()(std::size_t i) const {
    const std::size_t channels = norm.shape.channels;
    const std::size_t sample = i / norm.shape.positions / channels;
    switch (norm.options.kind) {
      case NormKind::kBatch:
        return channel(i);
      case NormKind::kInstance:
        return sample * channels + channel(i);
      case NormKind::kGroup:
        return sample * norm.options.groups + channel(i) * norm.options.groups / channels;
      default:
        return sample;
    }
  }
  std::size_t count() const {
    switch (norm.options.kind) {
      case NormKind::kBatch:
        return norm.shape.channels;
      case NormKind::kInstance:
        return norm.shape.samples * norm.shape.channels;
      case NormKind::kGroup:
        return norm.shape.samples * norm.options.groups;
      default:
        return norm.shape.samples;
    }
  }
  double size() const {
    return static_cast<double>(norm.shape.size()) / static_cast<double>(count());
  }
  double variance_divisor() const {
    return norm.options.variance == Variance::kUnbiased ? size() - 1 : size();
  }
};

double effective_gamma(const Norm& norm, std::size_t channel) {
  if (norm.gamma.empty()) return 1;
  return norm.options.gamma_form == GammaForm::kOnePlus ? 1 + norm.gamma[channel]
                                                        : norm.gamma[channel];
}

/// tanh(u), or erf(u), and its slope.
struct Squashed {
  double value, slope;

  Squashed(NormKind kind, double u) {
    if (kind == NormKind::kDyT) {
      value = std::tanh(u);
      slope = 1 / (std::cosh(u) * std::cosh(u));
    } else {
      value = std::erf(u);
      slope = 2 / std::sqrt(std::numbers::pi) * std::exp(-u * u);
    }
  }
};

NormOutput squash_forward(const Norm& norm) {
  NormOutput out;
  for (std::size_t i = 0; i < norm.x.size(); ++i) {
    const std::size_t c = i % norm.shape.channels;
    const Squashed squashed(norm.options.kind, norm.alpha * norm.x[i] + norm.shift);
    const double beta = norm.beta.empty() ? 0 : norm.beta[c];
    out.y.push_back(norm.options.output_scale * (effective_gamma(norm, c) * squashed.value + beta));
  }
  return out;
}

NormGradients squash_backward(const Norm& norm, const Values& dy) {
  NormGradients grad{Values(norm.x.size()), Values(norm.shape.channels),
                     Values(norm.shape.channels)};
  for (std::size_t i = 0; i < norm.x.size(); ++i) {
    const std::size_t c = i % norm.shape.channels;
    const Squashed squashed(norm.options.kind, norm.alpha * norm.x[i] + norm.shift);
    const double scaled = norm.options.output_scale * dy[i];
    grad.d_gamma[c] += scaled * squashed.value;
    grad.d_beta[c] += scaled;
    const double d_u = scaled * effective_gamma(norm, c) * squashed.slope;
    grad.dx[i] = d_u * norm.alpha;
    grad.d_alpha += d_u * norm.x[i];
    grad.d_shift += d_u;
  }
  return grad;
}

}  // namespace

NormOutput norm_forward(const Norm& norm) {
  if (squashes(norm.options.kind)) return squash_forward(norm);
  const Sets set{norm};
  const std::size_t n = norm.x.size();
  NormOutput out{Values(n), Values(set.count()), Values(set.count()), Values(set.count())};

  if (norm.options.kind != NormKind::kRms) {
    for (std::size_t i = 0; i < n; ++i) out.mean[set(i)] += norm.x[i] / set.size();
  }
  for (std::size_t i = 0; i < n; ++i) {
    const double d = norm.x[i] - out.mean[set(i)];
    out.variance[set(i)] += d * d / set.variance_divisor();
  }
  for (std::size_t k = 0; k < set.count(); ++k) {
    const double epsilon = norm.options.epsilon;
    out.deviation[k] = norm.options.epsilon_at == EpsilonAt::kVariance
                           ? std::sqrt(out.variance[k] + epsilon)
                           : std::sqrt(out.variance[k]) + epsilon;
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t c = set.channel(i);
    const double x_hat = (norm.x[i] - out.mean[set(i)]) / out.deviation[set(i)];
    const double beta = norm.beta.empty() ? 0 : norm.beta[c];
    out.y[i] = norm.options.output_scale * (effective_gamma(norm, c) * x_hat + beta);
  }
  return out;
}

NormGradients norm_backward(const Norm& norm, const Values& dy) {
  if (squashes(norm.options.kind)) return squash_backward(norm, dy);
  const Sets set{norm};
  const std::size_t n = norm.x.size();
  const NormOutput out = norm_forward(norm);
  NormGradients grad{Values(n), Values(norm.shape.channels), Values(norm.shape.channels)};

  // d_a is the gradient of a; x̂ = d/deviation with d = x − mean.
  Values d_d(n);
  Values d_deviation(set.count());
  for (std::size_t i = 0; i < n; ++i) {
    const double d = norm.x[i] - out.mean[set(i)];
    const double deviation = out.deviation[set(i)];
    const double scaled = norm.options.output_scale * dy[i];
    grad.d_gamma[set.channel(i)] += scaled * d / deviation;
    grad.d_beta[set.channel(i)] += scaled;
    const double d_x_hat = scaled * effective_gamma(norm, set.channel(i));
    d_d[i] = d_x_hat / deviation;
    d_deviation[set(i)] -= d_x_hat * d / (deviation * deviation);
  }
  // deviation = √(variance + ε) or √variance + ε. Its slope at variance = 0 is irrelevant, because
  // d = 0.
  Values d_variance(set.count());
  for (std::size_t k = 0; k < set.count(); ++k) {
    const double root = norm.options.epsilon_at == EpsilonAt::kVariance
                            ? out.deviation[k]
                            : std::sqrt(out.variance[k]);
    if (root > 0) d_variance[k] = d_deviation[k] / (2 * root);
  }
  // variance = Σd²/divisor; mean = Σx/n.
  Values d_mean(set.count());
  for (std::size_t i = 0; i < n; ++i) {
    const double d = norm.x[i] - out.mean[set(i)];
    d_d[i] += d_variance[set(i)] * 2 * d / set.variance_divisor();
    d_mean[set(i)] -= d_d[i];
  }
  for (std::size_t i = 0; i < n; ++i) {
    grad.dx[i] = d_d[i];
    if (norm.options.kind != NormKind::kRms) grad.dx[i] += d_mean[set(i)] / set.size();
  }
  return grad;
}

Values residual_add(const ResidualAdd& add) {
  auto factor = [&](const Values& scale, std::size_t i) {
    return scale.size() == 1 ? scale[0] : scale[i % add.features];
  };
  Values s(add.x.size());
  for (std::size_t i = 0; i < s.size(); ++i) {
    s[i] = factor(add.skip, i) * add.x[i];
    if (!add.branch.empty()) s[i] += factor(add.gain, i) * add.branch[i];
  }
  return s;
}

namespace {

/// Σ over i of a(i)·b(i).
template <typename A, typename B>
double dot(std::size_t count, const A& a, const B& b) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += a(i) * b(i);
  return sum;
}
/// Element (r, lane, c) of rows × lanes × features, or (r, i, j) of a mix.
auto at(const Values& values, std::size_t lanes, std::size_t size) {
  return [&values, lanes, size](std::size_t r, std::size_t lane, std::size_t c) {
    return values[(r * lanes + lane) * size + c];
  };
}
/// Returns a rows × lanes × size tensor of value(r, lane, c).
template <typename Value>
Values tensor(std::size_t rows, std::size_t lanes, std::size_t size, const Value& value) {
  Values values;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      for (std::size_t c = 0; c < size; ++c) values.push_back(value(r, lane, c));
    }
  }
  return values;
}
Norm norm_of(const Lanes& l, const Values& z) {
  return {*l.norm, {l.rows, l.features, 1}, z, l.gamma, l.beta};
}
Values dropped(const Lanes& l) {
  Values f = l.branch;
  for (std::size_t i = 0; i < f.size(); ++i) f[i] *= l.mask[i];
  return f;
}
/// R·X′
Values read_of(const Lanes& l, const Values& sum) {
  const auto read = at(l.read, l.reads, l.made_lanes);
  const auto made = at(sum, l.made_lanes, l.features);
  return tensor(l.rows, l.reads, l.features, [&](std::size_t r, std::size_t k, std::size_t c) {
    return dot(
        l.made_lanes, [&](std::size_t p) { return read(r, k, p); },
        [&](std::size_t p) { return made(r, p, c); });
  });
}

}  // namespace

LanesOutput lanes_forward(const Lanes& l) {
  const Values f_values = dropped(l);
  const auto x = at(l.x, l.x_lanes, l.features);
  const auto f = at(f_values, l.branch_lanes, l.features);
  const auto carry = at(l.carry, l.made_lanes, l.x_lanes);
  const auto write = at(l.write, l.made_lanes, l.branch_lanes);
  LanesOutput out;
  out.sum =
      tensor(l.rows, l.made_lanes, l.features, [&](std::size_t r, std::size_t p, std::size_t c) {
        return dot(
                   l.x_lanes, [&](std::size_t j) { return carry(r, p, j); },
                   [&](std::size_t j) { return x(r, j, c); }) +
               dot(
                   l.branch_lanes, [&](std::size_t j) { return write(r, p, j); },
                   [&](std::size_t j) { return f(r, j, c); });
      });
  out.y = read_of(l, out.sum);
  if (l.norm) out.y = norm_forward(norm_of(l, out.y)).y;
  return out;
}

LanesGradients lanes_backward(const Lanes& l, const Values& d_sum, const Values& dy) {
  const Values made_values = lanes_forward(l).sum;
  const Values f_values = dropped(l);
  LanesGradients grad;
  Values dz_values = dy;
  if (l.norm) {
    NormGradients norm = norm_backward(norm_of(l, read_of(l, made_values)), dy);
    dz_values = norm.dx;
    grad.d_gamma = norm.d_gamma;
    grad.d_beta = norm.d_beta;
  }
  const auto x = at(l.x, l.x_lanes, l.features);
  const auto f = at(f_values, l.branch_lanes, l.features);
  const auto made = at(made_values, l.made_lanes, l.features);
  const auto dz = at(dz_values, l.reads, l.features);
  const auto past = at(d_sum, l.made_lanes, l.features);
  const auto carry = at(l.carry, l.made_lanes, l.x_lanes);
  const auto write = at(l.write, l.made_lanes, l.branch_lanes);
  const auto read = at(l.read, l.reads, l.made_lanes);
  const Values g_values =
      tensor(l.rows, l.made_lanes, l.features, [&](std::size_t r, std::size_t p, std::size_t c) {
        return past(r, p, c) + dot(
                                   l.reads, [&](std::size_t k) { return read(r, k, p); },
                                   [&](std::size_t k) { return dz(r, k, c); });
      });
  const auto g = at(g_values, l.made_lanes, l.features);

  // For mixed values, Σ over lanes of X′; for the numbers of mixes, Σ over features.
  const auto transposed = [&](std::size_t lanes, const auto& mix) {
    return tensor(l.rows, lanes, l.features, [&](std::size_t r, std::size_t j, std::size_t c) {
      return dot(
          l.made_lanes, [&](std::size_t p) { return mix(r, p, j); },
          [&](std::size_t p) { return g(r, p, c); });
    });
  };
  const auto products = [&](std::size_t lanes, const auto& a, std::size_t others, const auto& b) {
    return tensor(l.rows, lanes, others, [&](std::size_t r, std::size_t i, std::size_t j) {
      return dot(
          l.features, [&](std::size_t c) { return a(r, i, c); },
          [&](std::size_t c) { return b(r, j, c); });
    });
  };
  grad.dx = transposed(l.x_lanes, carry);
  grad.d_branch = transposed(l.branch_lanes, write);
  for (std::size_t i = 0; i < grad.d_branch.size(); ++i) grad.d_branch[i] *= l.mask[i];
  grad.d_carry = products(l.made_lanes, g, l.x_lanes, x);
  grad.d_write = products(l.made_lanes, g, l.branch_lanes, f);
  grad.d_read = products(l.reads, dz, l.made_lanes, made);
  return grad;
}

Values softmax(const Values& scores, const std::vector<bool>& blocked) {
  double maximum = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (!blocked[i]) maximum = std::fmax(maximum, scores[i]);
  }
  Values p(scores.size());
  double total = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (!blocked[i]) total += p[i] = std::exp(scores[i] - maximum);
  }
  for (double& value : p) value = total > 0 ? value / total : 0;
  return p;
}

long double activation(Activation activation, long double x) {
  // Constants: clang 19 of Debian 13 crashes on a 128-bit square root for WebAssembly.
  constexpr long double kSqrt2 = std::numbers::sqrt2_v<long double>;
  constexpr long double kSqrt2OverPi = kSqrt2 * std::numbers::inv_sqrtpi_v<long double>;
  switch (activation) {
    case Activation::kRelu:
      return std::fmax(x, 0.0L);
    case Activation::kGelu:
      return x * std::erfc(-x / kSqrt2) / 2;
    case Activation::kGeluTanh:
      return x / 2 * (1 + std::tanh(kSqrt2OverPi * (x + 0.044715L * x * x * x)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
  }
  return 0;
}

}  // namespace addnorm::kernels::reference
