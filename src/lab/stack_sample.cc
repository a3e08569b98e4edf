#include "lab/stack_sample.h"

#include <fmt/format.h>

#include <cmath>

namespace addnorm {
namespace {

/// At the place, of one seed; squared where the quantity is a root.
double draw(const Specimen& specimen, Quantity quantity, std::size_t place, std::size_t layers) {
  const ProfileEntry& entry = stream_entry(specimen.profile, place, layers);
  switch (quantity) {
    case Quantity::kGradientRms:
      return entry.grad_rms * entry.grad_rms;
    case Quantity::kTokenCosine:
      return entry.token_cosine;
    default:
      return entry.rms * entry.rms;
  }
}

double in_theory(const SiteMoments& site, Quantity quantity) {
  switch (quantity) {
    case Quantity::kStreamPower:
      return site.value.power;
    case Quantity::kStreamRms:
      return std::sqrt(site.value.power);
    case Quantity::kGradientRms:
      return std::sqrt(site.gradient.power);
    default:
      return site.value.cosine();
  }
}

std::vector<double> places(std::size_t layers) {
  std::vector<double> x;
  for (std::size_t l = 0; l <= layers; ++l) x.push_back(static_cast<double>(l));
  return x;
}

/// What the papers call it, in a claim.
std::string_view name_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::kGradientRms:
      return "the gradient";
    case Quantity::kTokenCosine:
      return "the cosine of tokens";
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
      theory_(predict(stack, {1, 0}, {1, 0})) {}

Curve StackSample::measured(Quantity quantity, std::string name) const {
  std::vector<std::vector<double>> draws;
  for (const Specimen& specimen : specimens_) {
    std::vector<double>& values = draws.emplace_back();
    for (std::size_t l = 0; l <= layers(); ++l) {
      values.push_back(draw(specimen, quantity, l, layers()));
    }
  }
  const bool is_root = quantity == Quantity::kStreamRms || quantity == Quantity::kGradientRms;
  return (is_root ? rms_curve : mean_curve)(std::move(name), places(layers()), draws);
}

Curve StackSample::predicted(Quantity quantity, std::string name, double factor) const {
  std::vector<double> values;
  for (std::size_t l = 0; l <= layers(); ++l) {
    values.push_back(in_theory(theory_.stream(l), quantity));
  }
  return within_factor(std::move(name), places(layers()), std::move(values), factor);
}

std::vector<double> StackSample::last_weight_gradients() const {
  std::vector<double> norms;
  for (const Specimen& s : specimens_) norms.push_back(std::sqrt(s.down_gradient.back()));
  return norms;
}

double StackSample::predicted_last_weight_gradient() const {
  return std::sqrt(theory_.down_gradient.back());
}

Check add_curves(Panel& panel, const StackSample& sample, Quantity quantity,
                 const std::string& name, double factor) {
  panel.measured.push_back(sample.measured(quantity, name));
  panel.predicted.push_back(sample.predicted(quantity, name, factor));
  return check_curve(
      fmt::format("{}: {} is within a factor of {:g} of mean-field theory at every layer", name,
                  name_of(quantity), factor),
      "docs/theory.md", panel.measured.back(), panel.predicted.back());
}

}  // namespace addnorm
