#include "lab/stack_sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace addnorm::lab {
namespace {

std::size_t places(Quantity quantity, std::size_t layers) {
  const bool in_layers = quantity == Quantity::kWeightGradient || quantity == Quantity::kSumPower;
  return in_layers ? layers : layers + 1;
}
bool is_root(Quantity quantity) {
  using enum Quantity;
  return quantity == kStreamRms || quantity == kGradientRms || quantity == kWeightGradient;
}
Site sum_site(std::size_t layer) {
  return {layer, SublayerKind::kFeedForward, Point::kSum};
}

/// Returns the value of one seed; squared if the quantity is a root.
double draw(const StackProfile& profile, Quantity quantity, std::size_t place) {
  if (quantity == Quantity::kWeightGradient) return profile.down_gradient[place];
  const probe::ProfileEntry& entry =
      quantity == Quantity::kSumPower
          ? *find_entry(profile.entries, sum_site(place))
          : probe::stream_entry(profile.entries, place, profile.down_gradient.size());
  if (quantity == Quantity::kTokenCosine) return entry.token_cosine;
  const double rms = quantity == Quantity::kGradientRms ? entry.grad_rms : entry.rms;
  return rms * rms;
}
double draw(const theory::StackMoments& theory, Quantity quantity, std::size_t place) {
  if (quantity == Quantity::kWeightGradient) return theory.down_gradient[place];
  const theory::SiteMoments& site =
      quantity == Quantity::kSumPower ? theory.at(sum_site(place)) : theory.stream(place);
  if (quantity == Quantity::kTokenCosine) return site.value.cosine();
  return quantity == Quantity::kGradientRms ? site.gradient.power : site.value.power;
}

template <typename Drawn>
std::vector<double> draws(const Drawn& drawn, Quantity quantity) {
  std::vector<double> values;
  for (std::size_t l = 0; l < places(quantity, drawn.down_gradient.size()); ++l) {
    values.push_back(draw(drawn, quantity, l));
  }
  return values;
}

std::vector<double> indices(std::size_t count) {
  std::vector<double> x(count);
  std::iota(x.begin(), x.end(), 0.0);
  return x;
}

// Without a skip the logarithm of one draw's power has the variance 11·L/d (docs/theory.md): 2 at
// most.
constexpr double kFactorWithoutSkip = 2.5;
constexpr double kDeepestWithoutSkip = 0.19;
// With a skip of the same size the variance is about 3.7·L/d: 1 at most.
constexpr double kDeepestWithoutNorm = 0.27;
constexpr double kDeepest = 1;

bool any_sublayer(const theory::WideStack& stack, bool (*holds)(const Placement&, Depth)) {
  for (std::size_t i = 0; i < stack.placements.size(); ++i) {
    const Depth depth{i + 1, stack.placements.size()};
    const auto& [attention, feed_forward] = stack.placements[i];
    if (holds(attention, depth) || holds(feed_forward, depth)) return true;
  }
  return false;
}
bool skips(const theory::WideStack& stack) {
  return !any_sublayer(
      stack, [](const Placement& p, Depth depth) { return p.skip.initial.value(depth) == 0; });
}
/// Whether the branch has the size of the stream that it reads.
bool grows_without_norm(const theory::WideStack& stack) {
  return any_sublayer(stack, [](const Placement& p, Depth depth) {
    return !p.has_norm() && p.gain.initial.value(depth) >= 1;
  });
}
/// A norm after each sum shrinks the skip's share, almost as if there were none.
bool is_post_norm(const theory::WideStack& stack) {
  return any_sublayer(stack, [](const Placement& p, Depth depth) {
    return p.after == Slot::kNorm && p.skip.initial.value(depth) <= 1;
  });
}
bool has_learned_skip(const theory::WideStack& stack) {
  return any_sublayer(stack, [](const Placement& p, Depth) {
    return p.skip.form != ResidualFactor::Form::kConstant;
  });
}

const char* name_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::kGradientRms:
      return msg("the gradient");
    case Quantity::kTokenCosine:
      return msg("the token similarity");
    case Quantity::kWeightGradient:
      return msg("the weights' gradient");
    case Quantity::kSumPower:
      return msg("the sum");
    default:
      return msg("the stream");
  }
}

}  // namespace

theory::WideStack wide_stack(std::vector<BlockPlacement> placements, std::size_t d_model) {
  return {.placements = std::move(placements), .tokens = 32, .d_model = d_model, .d_ff = d_model};
}

StackSample::StackSample(const theory::WideStack& stack, const FigureOptions& options)
    : stack_(stack),
      profiles_(profile_stacks(stack, options.seed, options.seeds, options.bug)),
      theory_(stack.queries == theory::Queries::kZero ? theory::predict(stack, {1, 0}, {1, 0})
                                                      : theory::StackMoments{}) {}

Series StackSample::measured(Quantity quantity, std::string name) const {
  std::vector<std::vector<double>> all;
  for (const StackProfile& profile : profiles_) all.push_back(draws(profile, quantity));
  return (is_root(quantity) ? rms_curve : mean_curve)(std::move(name), indices(all[0].size()), all);
}

Series StackSample::predicted(Quantity quantity, std::string name, double factor) const {
  std::vector<double> values = draws(theory_, quantity);
  if (is_root(quantity)) {
    for (double& v : values) v = std::sqrt(v);
  }
  const std::vector<double> x = indices(values.size());
  if (quantity == Quantity::kTokenCosine) {
    return within(std::move(name), x, values, std::vector<double>(x.size(), factor - 1));
  }
  if (!skips(stack_)) factor = std::max(factor, kFactorWithoutSkip);
  return within_factor(std::move(name), x, values, factor);
}

Message StackSample::unmet(Quantity quantity, Reach reach) const {
  const double layers_over_width =
      static_cast<double>(layers()) / static_cast<double>(stack_.d_model);
  if (layers_over_width > kDeepest) return msg("the stack is deeper than wide");
  if (!skips(stack_) && layers_over_width > kDeepestWithoutSkip) {
    return msg("without a skip, this many layers of this width fluctuate too much");
  }
  if (grows_without_norm(stack_) && layers_over_width > kDeepestWithoutNorm) {
    return msg("without a norm, this many layers of this width fluctuate too much");
  }
  const bool goes_back = reach == Reach::kEveryLayer && (quantity == Quantity::kGradientRms ||
                                                         quantity == Quantity::kWeightGradient);
  if (goes_back && is_post_norm(stack_) && layers_over_width > kDeepestWithoutSkip) {
    return msg("after this many post-norms of this width, gradients fluctuate too much");
  }
  if (has_learned_skip(stack_)) return msg("Admin's skips are not profiled here");
  if (quantity == Quantity::kWeightGradient && theory_.down_gradient.back() == 0) {
    return msg("its branches start at 0, so that no gradient reaches their weights");
  }
  return "";
}

Check check_theory(Message claim, Message source, const StackSample& sample, Quantity quantity,
                   const Series& measured, const Series& predicted, Reach reach) {
  Check check = check_mean(std::move(claim), std::move(source), measured, predicted);
  if (Message unmet = sample.unmet(quantity, reach); !unmet.empty()) check.unmet = std::move(unmet);
  return check;
}

Check add_curves(Panel& panel, const StackSample& sample, Quantity quantity,
                 const std::string& name, double factor) {
  panel.measured.push_back(sample.measured(quantity, name));
  panel.predicted.push_back(sample.predicted(quantity, name, factor));
  return check_theory(
      msg("{}: {} matches mean-field theory, layer by layer", name, name_of(quantity)),
      "docs/theory.md", sample, quantity, panel.measured.back(), panel.predicted.back());
}

}  // namespace addnorm::lab
