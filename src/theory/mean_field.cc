#include "theory/mean_field.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "addnorm/nn/lane_coefficients.h"
#include "base/require.h"
#include "probe/profiler.h"
#include "theory/gaussian_kernel.h"

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
    const TokenMoments bias{bias_variance, bias_variance};  // the same for all tokens
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

/// Every token becomes the mean of all tokens.
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

/// The two random layers of a sublayer, and the function between or before them.
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

  SublayerKind kind() const { return kind_; }

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

/// The second moments of the lanes of a token, lane i with lane j.
class Gram {
 public:
  explicit Gram(std::size_t lanes) : lanes_(lanes), moments_(lanes * lanes) {}

  std::size_t lanes() const { return lanes_; }
  TokenMoments& operator()(std::size_t i, std::size_t j) { return moments_[i * lanes_ + j]; }
  const TokenMoments& operator()(std::size_t i, std::size_t j) const {
    return moments_[i * lanes_ + j];
  }

  /// Returns the moments of M·X: M·P·Mᵀ. `m` has rows × lanes() numbers.
  Gram mixed(const std::vector<double>& m) const {
    const std::size_t rows = m.size() / lanes_;
    Gram result(rows);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < rows; ++j) {
        for (std::size_t k = 0; k < lanes_ * lanes_; ++k) {
          const double weight = m[i * lanes_ + k / lanes_] * m[j * lanes_ + k % lanes_];
          result(i, j) = result(i, j) + weight * moments_[k];
        }
      }
    }
    return result;
  }
  /// Adds the moments of v ⊗ f, with f independent of the lanes: v·vᵀ·p_f.
  void add(const std::vector<double>& v, const TokenMoments& f) {
    for (std::size_t k = 0; k < lanes_ * lanes_; ++k) {
      moments_[k] = moments_[k] + v[k / lanes_] * v[k % lanes_] * f;
    }
  }
  /// Multiplies the values of a lane by √square.
  void scale(std::size_t lane, double square) {
    for (std::size_t k = 0; k < lanes_; ++k) {
      (*this)(lane, k) = std::sqrt(square) * (*this)(lane, k);
      (*this)(k, lane) = std::sqrt(square) * (*this)(k, lane);
    }
  }

 private:
  std::size_t lanes_;
  std::vector<TokenMoments> moments_;
};

/// Returns the transpose of rows × cols numbers.
std::vector<double> transposed(const std::vector<double>& m, std::size_t cols) {
  std::vector<double> t;
  for (std::size_t j = 0; j < cols; ++j) {
    for (std::size_t i = j; i < m.size(); i += cols) t.push_back(m[i]);
  }
  return t;
}

/// Returns the factor of a slot's division on the moments of values and of gradients; 1 without a
/// norm.
double norm_factor(const WideStack& stack, Slot slot, const TokenMoments& x) {
  if (slot == Slot::kNothing) return 1;
  if (slot == Slot::kUnit) return 1 / (static_cast<double>(stack.d_model) * x.power);
  return 1 / (x.power + stack.norm.epsilon);
}

/// The norm of a slot on tokens with these moments, times √square.
class NormMoments {
 public:
  NormMoments() = default;
  NormMoments(const WideStack& stack, Slot slot, const TokenMoments& x, double square = 1) {
    if (slot == Slot::kNorm && squashes(stack.norm.kind)) {
      const double a = stack.norm.alpha * stack.norm.alpha;
      const auto kernel = [&](double covariance) {
        return gaussian_kernel(stack.norm.kind, a * x.power, a * covariance);
      };
      const GaussianKernel one = kernel(x.power), two = kernel(x.overlap);
      value_ = square * TokenMoments{one.value, two.value};
      slope_ = square * a * TokenMoments{one.slope, two.slope};
    } else {
      const double factor = square * norm_factor(stack, slot, x);
      value_ = factor * x;
      slope_ = {factor, factor};
    }
  }

  const TokenMoments& value() const { return value_; }
  TokenMoments gradient(const TokenMoments& dy) const {
    return {slope_.power * dy.power, slope_.overlap * dy.overlap};
  }
  /// The factor of the division on both moments, forward and backward.
  double factor() const { return slope_.power; }

 private:
  TokenMoments value_, slope_;
};

/// One Add & Norm, in the order of src/nn/add_norm.cc: z = a·R(X), h = before(z), f = inside(F(h)),
/// X′ = after(A·X + b ⊗ u). One lane has a = 1, A = skip and b = gain. If several mixes are read, F
/// depends only on the first, the values', because the queries are 0.
class AddNormMoments {
 public:
  AddNormMoments(const WideStack& stack, const Placement& placement, const Place& place)
      : stack_(stack),
        placement_(placement),
        place_(place),
        mixes_(initial_mixes(placement, place)) {
    branches_.emplace_back(stack, place.sublayer, placement, place.depth);
    if (placement.sublayers == Sublayers::kParallel) {
      branches_.emplace_back(stack, SublayerKind::kFeedForward, placement, place.depth);
    }
    // u = f − z: X′ = (A − b·a)·X + b·f
    if (placement.update == Update::kDifference) {
      for (std::size_t k = 0; k < mixes_.carry.size(); ++k) {
        mixes_.carry[k] -= mixes_.write[k / mixes_.lanes] * mixes_.read[k % mixes_.lanes];
      }
    }
  }

  Gram forward(const Gram& x, StackMoments& out) {
    read_ = mixes_.read;
    const std::size_t n = x.lanes();
    const double last = std::sqrt(norm_factor(stack_, placement_.lanes.last_lane, x(n - 1, n - 1)));
    for (std::size_t k = n - 1; k < read_.size(); k += n) read_[k] *= last;
    const Gram z = x.mixed(read_);
    const double scale = placement_.before_scale.value(place_.depth);
    for (std::size_t i = 0; i < z.lanes(); ++i) {
      const NormMoments norm(stack_, placement_.before, z(i, i), scale * scale);
      observe(Point::kX, z(i, i), out, i);
      if (placement_.before != Slot::kNothing) observe(Point::kBefore, norm.value(), out, i);
      if (i == 0) before_ = norm;
    }
    read_.resize(n);
    TokenMoments f;
    for (Branch& branch : branches_) f = f + branch.forward(before_.value());
    observe(Point::kBranch, f, out);
    const double gamma = placement_.inside_gamma.value(place_.depth);
    inside_ = NormMoments(stack_, placement_.inside, f, gamma * gamma);
    f = inside_.value();
    if (placement_.inside != Slot::kNothing) observe(Point::kInside, f, out);
    Gram s = x.mixed(mixes_.carry);
    s.add(mixes_.write, f);
    for (std::size_t i = 0; i < s.lanes(); ++i) observe(Point::kSum, s(i, i), out, i);
    after_ = NormMoments(stack_, placement_.after, s(0, 0));
    if (s.lanes() == 1) {
      s(0, 0) = after_.value();
    } else {
      s.scale(0, after_.factor());
    }
    if (placement_.after != Slot::kNothing) observe(Point::kAfter, s(0, 0), out);
    return s;
  }

  Gram backward(Gram gradient, StackMoments& out) {
    if (placement_.after != Slot::kNothing) {
      observe_gradient(Point::kAfter, gradient(0, 0), out);
    }
    if (gradient.lanes() == 1) {
      gradient(0, 0) = after_.gradient(gradient(0, 0));
    } else {
      gradient.scale(0, after_.factor());
    }
    for (std::size_t i = 0; i < gradient.lanes(); ++i) {
      observe_gradient(Point::kSum, gradient(i, i), out, i);
    }
    TokenMoments df = gradient.mixed(mixes_.write)(0, 0);
    if (placement_.inside != Slot::kNothing) observe_gradient(Point::kInside, df, out);
    df = inside_.gradient(df);
    observe_gradient(Point::kBranch, df, out);
    TokenMoments dh;
    for (const Branch& branch : branches_) {
      if (branch.kind() == SublayerKind::kFeedForward) {
        out.down_gradient[place_.depth.layer - 1] = branch.second_weight_gradient(df);
      }
      dh = dh + branch.backward(df);
    }
    if (placement_.before != Slot::kNothing) observe_gradient(Point::kBefore, dh, out);
    const TokenMoments dz = before_.gradient(dh);
    Gram dx = gradient.mixed(transposed(mixes_.carry, mixes_.lanes));
    dx.add(read_, dz);
    observe_gradient(Point::kX, placement_.lanes.several() ? dz : dx(0, 0), out);
    return dx;
  }

 private:
  Site site(Point point, std::size_t lane) const {
    Site at{place_.depth.layer - 1, place_.sublayer, point};
    at.lane = lane;
    return at;
  }
  void observe(Point point, const TokenMoments& value, StackMoments& out,
               std::size_t lane = 0) const {
    out.sites.push_back({site(point, lane), value, {}});
  }
  void observe_gradient(Point point, const TokenMoments& gradient, StackMoments& out,
                        std::size_t lane = 0) const {
    const auto here = std::ranges::find(out.sites, site(point, lane), &SiteMoments::site);
    here->gradient = gradient;
  }

  WideStack stack_;
  Placement placement_;
  Place place_;
  InitialMixes mixes_;
  std::vector<double> read_;  // F's input: a, including R on the last lane
  std::vector<Branch> branches_;
  NormMoments before_, inside_, after_;
};

std::vector<AddNormMoments> sublayers(const WideStack& stack) {
  std::vector<AddNormMoments> all;
  for_each_add_norm(stack.placements, lanes_before(stack.placements, 0, 0), stack.placements.size(),
                    [&](const Placement& placement, const Place& place) {
                      all.emplace_back(stack, placement, place);
                    });
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
  const std::vector<Site> all = probe::stream_sites(place, down_gradient.size());
  const auto there = [&](const Site& site) {
    return std::ranges::find(sites, site, &SiteMoments::site) != sites.end();
  };
  const auto found = std::ranges::find_if(all, there);
  return at(found == all.end() ? all.back() : *found);
}

bool covers(const Placement& placement) {
  return !placement.lanes.splits_features && placement.update != Update::kGated &&
         placement.survival.formula == "1";
}

StackMoments predict(const WideStack& stack, const TokenMoments& input,
                     const TokenMoments& gradient) {
  require(stack.queries == Queries::kZero, "predict: the queries are drawn, must be 0");
  for (const BlockPlacement& block : stack.placements) {
    for (const Placement& placement : {block.attention, block.feed_forward}) {
      require(covers(placement), "theory does not cover placement \"{}\"", placement.name);
      require(!placement.lanes.several() || !squashes(stack.norm.kind),
              "theory does not cover {} in a stream of several lanes, as \"{}\" has them",
              to_string(stack.norm.kind), placement.name);
    }
  }
  StackMoments out;
  out.down_gradient.resize(stack.placements.size());
  std::vector<AddNormMoments> all = sublayers(stack);

  // X_0 = u ⊗ x, whose first lane goes through the entry norm.
  const Placement& first = stack.placements.front().attention;
  const NormMoments entry(stack, first.entry, input);
  std::vector<double> enter(lanes_before(stack.placements, 0, 0));
  for (std::size_t i = 0; i < enter.size(); ++i) enter[i] = first.lanes.enter(i);
  Gram x(enter.size());
  if (enter.size() == 1) {
    x.add(enter, entry.value());
  } else {
    enter[0] *= std::sqrt(entry.factor());
    x.add(enter, input);
  }
  for (AddNormMoments& sublayer : all) x = sublayer.forward(x, out);

  // z = c·R(X), or x with one lane, through the final norm.
  const Placement& last = stack.placements.back().feed_forward;
  const std::size_t layers = stack.placements.size(), lanes = x.lanes();
  std::vector<double> exit{1};
  if (last.lanes.several()) {
    const Place behind{.depth = {layers + 1, layers}, .lanes = lanes};
    exit = initial_numbers(last.lanes.exit, behind, 1, lanes);
    exit.back() *=
        std::sqrt(norm_factor(stack, last.lanes.last_lane_at_exit, x(lanes - 1, lanes - 1)));
  }
  const TokenMoments z = x.mixed(exit)(0, 0);
  TokenMoments dz = gradient;
  const Site end{layers, SublayerKind::kFinalNorm, Point::kX};
  if (last.lanes.several()) out.sites.push_back({end, z, {}});
  if (has_final_norm(stack)) {
    const NormMoments norm(stack, Slot::kNorm, z);
    out.sites.push_back(
        {{layers, SublayerKind::kFinalNorm, Point::kOutput}, norm.value(), gradient});
    dz = norm.gradient(dz);
  }
  if (last.lanes.several()) {
    std::ranges::find(out.sites, end, &SiteMoments::site)->gradient = dz;
  }
  Gram d(lanes);
  d.add(exit, dz);
  std::ranges::reverse(all);
  for (AddNormMoments& sublayer : all) d = sublayer.backward(d, out);
  return out;
}

}  // namespace addnorm::theory
