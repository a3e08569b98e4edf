#include "theory/mean_field.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/require.h"

namespace addnorm::theory {
namespace {

TokenMoments operator+(const TokenMoments& a, const TokenMoments& b) {
  return {a.power + b.power, a.overlap + b.overlap};
}
TokenMoments operator*(double factor, const TokenMoments& m) {
  return {factor * m.power, factor * m.overlap};
}

/// y = W·x + b with independent weights and biases.
struct RandomLinear {
  std::size_t in, out;
  double weight_variance;
  double bias_variance;

  TokenMoments forward(const TokenMoments& x) const {
    const TokenMoments bias{bias_variance, bias_variance};  // all tokens have the same
    return static_cast<double>(in) * weight_variance * x + bias;
  }
  TokenMoments backward(const TokenMoments& dy) const {
    return static_cast<double>(out) * weight_variance * dy;
  }
};

RandomLinear random_linear(Initialization initialization, std::size_t in, std::size_t out,
                           double gain) {
  const double width = static_cast<double>(in);
  const double g = gain * gain;
  switch (initialization) {
    case Initialization::kTorch:
      return {in, out, g / (3 * width), 1 / (3 * width)};
    case Initialization::kXavier:
      return {in, out, g * 2 / (width + static_cast<double>(out)), 0};
    default:
      return {in, out, g * 0.02 * 0.02, 0};
  }
}

/// Every token becomes the mean of all.
TokenMoments averaged(const TokenMoments& x, std::size_t tokens) {
  const double n = static_cast<double>(tokens);
  const double mean = (x.power + (n - 1) * x.overlap) / n;
  return {mean, mean};
}

/// φ = max(0, ·) of Gaussian features with correlation c (Cho and Saul 2009, arc-cosine kernels of
/// degree 1 and 0).
struct Relu {
  double angle;

  explicit Relu(const TokenMoments& u)
      : angle(std::acos(std::clamp(u.power > 0 ? u.cosine() : 0, -1.0, 1.0))) {}

  TokenMoments forward(const TokenMoments& u) const {
    const double both = std::sin(angle) + (std::numbers::pi - angle) * std::cos(angle);
    return {u.power / 2, u.power * both / (2 * std::numbers::pi)};
  }
  TokenMoments backward(const TokenMoments& dy) const {
    return {dy.power / 2, dy.overlap * (1 - angle / std::numbers::pi) / 2};
  }
};

/// The two random layers of a sublayer, and what stands between or before them.
class Branch {
 public:
  Branch(const WideStack& stack, SublayerKind kind, const Placement& placement, Depth depth)
      : kind_(kind), tokens_(stack.tokens) {
    const double gain = placement.initial_gain.value(depth);
    const double into_stream = stack.initialization == Initialization::kGpt2
                                   ? 1 / std::sqrt(2 * static_cast<double>(depth.layers))
                                   : 1;
    const std::size_t hidden = kind == SublayerKind::kAttention ? stack.d_model : stack.d_ff;
    first_ = random_linear(stack.initialization, stack.d_model, hidden, gain);
    second_ = random_linear(stack.initialization, hidden, stack.d_model, gain * into_stream);
  }

  TokenMoments forward(const TokenMoments& h) {
    if (kind_ == SublayerKind::kAttention) {
      hidden_ = first_.forward(averaged(h, tokens_));
    } else {
      up_ = first_.forward(h);
      hidden_ = Relu(up_).forward(up_);
    }
    return second_.forward(hidden_);
  }
  TokenMoments backward(const TokenMoments& df) const {
    const TokenMoments d_hidden = second_.backward(df);
    if (kind_ == SublayerKind::kAttention) return averaged(first_.backward(d_hidden), tokens_);
    return first_.backward(Relu(up_).backward(d_hidden));
  }

  /// E‖Σ_i df_i·hidden_iᵀ‖².
  double second_weight_gradient(const TokenMoments& df) const {
    const double n = static_cast<double>(tokens_);
    const double pairs = df.power * hidden_.power + (n - 1) * df.overlap * hidden_.overlap;
    return n * static_cast<double>(second_.in * second_.out) * pairs;
  }

 private:
  SublayerKind kind_;
  std::size_t tokens_;
  RandomLinear first_{}, second_{};
  TokenMoments up_, hidden_;
};

/// One norm, of tokens with these moments: multiplies values, and gradients, with this.
double norm_factor(const TokenMoments& x, double epsilon) {
  return 1 / (x.power + epsilon);
}

/// One Add & Norm: the same five slots, in the same order, as src/nn/add_norm.cc.
class AddNormMoments {
 public:
  AddNormMoments(const WideStack& stack, SublayerKind kind, const Placement& placement, Depth depth)
      : placement_(placement),
        depth_(depth),
        kind_(kind),
        epsilon_(stack.epsilon),
        branch_(stack, kind, placement, depth) {
    skip_ = placement.skip.initial.value(depth);
    gain_ = placement.gain.initial.value(depth);
  }

  TokenMoments forward(const TokenMoments& x, StackMoments& out) {
    TokenMoments h = x;
    observe(Point::kX, x, out);
    if (placement_.before == Slot::kNorm) {
      const double scale = placement_.before_scale.value(depth_);
      before_factor_ = scale * scale * norm_factor(x, epsilon_);
      h = before_factor_ * x;
      observe(Point::kBefore, h, out);
    }
    TokenMoments f = branch_.forward(h);
    observe(Point::kBranch, f, out);
    if (placement_.inside == Slot::kNorm) {
      const double gamma = placement_.inside_gamma.value(depth_);
      inside_factor_ = gamma * gamma * norm_factor(f, epsilon_);
      f = inside_factor_ * f;
      observe(Point::kInside, f, out);
    }
    const TokenMoments s = skip_ * skip_ * x + gain_ * gain_ * f;
    observe(Point::kSum, s, out);
    if (placement_.after != Slot::kNorm) return s;
    after_factor_ = norm_factor(s, epsilon_);
    observe(Point::kAfter, after_factor_ * s, out);
    return after_factor_ * s;
  }

  TokenMoments backward(TokenMoments gradient, StackMoments& out) {
    if (placement_.after == Slot::kNorm) {
      observe_gradient(Point::kAfter, gradient, out);
      gradient = after_factor_ * gradient;
    }
    observe_gradient(Point::kSum, gradient, out);
    TokenMoments df = gain_ * gain_ * gradient;
    if (placement_.inside == Slot::kNorm) {
      observe_gradient(Point::kInside, df, out);
      df = inside_factor_ * df;
    }
    observe_gradient(Point::kBranch, df, out);
    if (kind_ == SublayerKind::kFeedForward) {
      out.down_gradient[depth_.layer - 1] = branch_.second_weight_gradient(df);
    }
    TokenMoments dh = branch_.backward(df);
    if (placement_.before == Slot::kNorm) {
      observe_gradient(Point::kBefore, dh, out);
      dh = before_factor_ * dh;
    }
    const TokenMoments dx = skip_ * skip_ * gradient + dh;
    observe_gradient(Point::kX, dx, out);
    return dx;
  }

 private:
  Site site(Point point) const { return {depth_.layer - 1, kind_, point}; }
  void observe(Point point, const TokenMoments& value, StackMoments& out) const {
    out.sites.push_back({site(point), value, {}});
  }
  void observe_gradient(Point point, const TokenMoments& gradient, StackMoments& out) const {
    const auto here = std::ranges::find(out.sites, site(point), &SiteMoments::site);
    here->gradient = gradient;
  }

  Placement placement_;
  Depth depth_;
  SublayerKind kind_;
  double epsilon_;
  Branch branch_;
  double skip_ = 1, gain_ = 1;
  double before_factor_ = 1, inside_factor_ = 1, after_factor_ = 1;
};

std::vector<AddNormMoments> sublayers(const WideStack& stack) {
  std::vector<AddNormMoments> all;
  for (std::size_t i = 0; i < stack.placements.size(); ++i) {
    const Depth depth{i + 1, stack.placements.size()};
    all.emplace_back(stack, SublayerKind::kAttention, stack.placements[i].attention, depth);
    all.emplace_back(stack, SublayerKind::kFeedForward, stack.placements[i].feed_forward, depth);
  }
  return all;
}

bool has_final_norm(const WideStack& stack) {
  if (stack.final_norm != FinalNorm::kAsPlacement) return stack.final_norm == FinalNorm::kYes;
  return !stack.placements.empty() &&
         stack.placements.back().feed_forward.final_norm == Slot::kNorm;
}

}  // namespace

const SiteMoments& StackMoments::at(const Site& site) const {
  const auto found = std::ranges::find(sites, site, &SiteMoments::site);
  require(found != sites.end(), "StackMoments: there is no such site in layer {}", site.layer);
  return *found;
}

const SiteMoments& StackMoments::stream(std::size_t place) const {
  using enum SublayerKind;
  const std::size_t layers = down_gradient.size();
  if (place < layers) return at({place, kAttention, Point::kX});
  const Site after{layers - 1, kFeedForward, Point::kAfter};
  const bool normalized = std::ranges::find(sites, after, &SiteMoments::site) != sites.end();
  return normalized ? at(after) : at({layers - 1, kFeedForward, Point::kSum});
}

bool covers(const Placement& placement) {
  return !placement.lanes.several() && placement.update == Update::kBranch &&
         placement.sublayers == Sublayers::kInTurn && placement.inside != Slot::kUnit &&
         placement.entry == Slot::kNothing && placement.survival.formula == "1";
}

StackMoments predict(const WideStack& stack, const TokenMoments& input,
                     const TokenMoments& gradient) {
  require(stack.queries == Queries::kZero, "predict: the queries are drawn, must be 0");
  for (const BlockPlacement& block : stack.placements) {
    for (const Placement& placement : {block.attention, block.feed_forward}) {
      require(covers(placement), "theory does not cover placement \"{}\"", placement.name);
    }
  }
  StackMoments out;
  out.down_gradient.resize(stack.placements.size());
  std::vector<AddNormMoments> all = sublayers(stack);
  TokenMoments x = input;
  for (AddNormMoments& sublayer : all) x = sublayer.forward(x, out);
  TokenMoments d = gradient;
  if (has_final_norm(stack)) {
    const double factor = norm_factor(x, stack.epsilon);
    out.sites.push_back(
        {{all.size() / 2, SublayerKind::kFinalNorm, Point::kOutput}, factor * x, gradient});
    d = factor * d;
  }
  std::ranges::reverse(all);
  for (AddNormMoments& sublayer : all) d = sublayer.backward(d, out);
  return out;
}

}  // namespace addnorm::theory
