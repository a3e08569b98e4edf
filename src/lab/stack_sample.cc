#include "lab/stack_sample.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

namespace addnorm {
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

/// Of one seed; squared where the quantity is a root.
double draw(const Specimen& specimen, Quantity quantity, std::size_t place) {
  if (quantity == Quantity::kWeightGradient) return specimen.down_gradient[place];
  const ProfileEntry& entry =
      quantity == Quantity::kSumPower
          ? *find_entry(specimen.profile, sum_site(place))
          : stream_entry(specimen.profile, place, specimen.down_gradient.size());
  if (quantity == Quantity::kTokenCosine) return entry.token_cosine;
  const double rms = quantity == Quantity::kGradientRms ? entry.grad_rms : entry.rms;
  return rms * rms;
}
double draw(const StackMoments& theory, Quantity quantity, std::size_t place) {
  if (quantity == Quantity::kWeightGradient) return theory.down_gradient[place];
  const SiteMoments& site =
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

std::string_view name_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::kGradientRms:
      return "the gradient";
    case Quantity::kTokenCosine:
      return "the cosine of tokens";
    case Quantity::kWeightGradient:
      return "the weights' gradient";
    case Quantity::kSumPower:
      return "the sum";
    default:
      return "the stream";
  }
}

}  // namespace

WideStack wide_stack(std::vector<BlockPlacement> placements, std::size_t d_model) {
  return {.placements = std::move(placements), .tokens = 32, .d_model = d_model, .d_ff = d_model};
}

StackSample::StackSample(const WideStack& stack, const FigureOptions& options)
    : specimens_(draw_specimens(stack, options.seed, options.seeds, options.bug)),
      theory_(stack.queries == Queries::kZero ? predict(stack, {1, 0}, {1, 0}) : StackMoments{}) {}

Curve StackSample::measured(Quantity quantity, std::string name) const {
  std::vector<std::vector<double>> all;
  for (const Specimen& specimen : specimens_) all.push_back(draws(specimen, quantity));
  return (is_root(quantity) ? rms_curve : mean_curve)(std::move(name), indices(all[0].size()), all);
}

Curve StackSample::predicted(Quantity quantity, std::string name, double factor) const {
  std::vector<double> values = draws(theory_, quantity);
  if (is_root(quantity)) {
    for (double& v : values) v = std::sqrt(v);
  }
  const std::vector<double> x = indices(values.size());
  if (quantity == Quantity::kTokenCosine) {
    return within(std::move(name), x, values, std::vector<double>(x.size(), factor - 1));
  }
  return within_factor(std::move(name), x, values, factor);
}

std::vector<double> StackSample::last_over_first() const {
  std::vector<double> ratios;
  for (const Specimen& s : specimens_) {
    ratios.push_back(std::sqrt(s.down_gradient.back() / s.down_gradient.front()));
  }
  return ratios;
}

Check add_curves(Panel& panel, const StackSample& sample, Quantity quantity,
                 const std::string& name, double factor) {
  panel.measured.push_back(sample.measured(quantity, name));
  panel.predicted.push_back(sample.predicted(quantity, name, factor));
  return check_mean(
      fmt::format("{}: {} is within {} of mean-field theory at every layer", name,
                  name_of(quantity),
                  quantity == Quantity::kTokenCosine ? fmt::format("{:.2g}", factor - 1)
                                                     : fmt::format("a factor of {:g}", factor)),
      "docs/theory.md", panel.measured.back(), panel.predicted.back());
}

}  // namespace addnorm
