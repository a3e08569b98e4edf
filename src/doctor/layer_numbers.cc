#include "doctor/layer_numbers.h"

#include <cmath>

#include "doctor/placements.h"

namespace addnorm::doctor {

std::vector<LayerNumbers> layer_numbers(const Subject& subject, std::size_t step) {
  using enum SublayerKind;
  if (!subject.was_run()) return {};
  const io::Profile& profile = subject.profile;
  const std::size_t n_layers =
      subject.was_run_whole() ? profile.model.n_layers : subject.layers_run;
  const Placements placements = placements_of(profile.model);
  std::vector<LayerNumbers> layers;
  layers.reserve(n_layers);
  for (std::size_t l = 0; l < n_layers; ++l) {
    const auto at = [&](SublayerKind sublayer, Point point, double ProfileEntry::*member) {
      const ProfileEntry* entry = find_entry(profile, step, {l, sublayer, point});
      return entry == nullptr ? Subject::kUnknown : entry->*member;
    };
    const auto share = [&](SublayerKind sublayer) {
      double branch = at(sublayer, Point::kInside, &ProfileEntry::rms);
      if (std::isnan(branch)) branch = at(sublayer, Point::kBranch, &ProfileEntry::rms);
      const Placement* placement = placement_at(placements, {l, sublayer});
      const Depth depth{l + 1, profile.model.n_layers};
      const auto factor = [&](const ResidualFactor Placement::*member) {
        return placement == nullptr
                   ? 1
                   : constant_factor(placement->*member, depth).value_or(Subject::kUnknown);
      };
      return factor(&Placement::gain) * branch /
             (factor(&Placement::skip) * at(sublayer, Point::kX, &ProfileEntry::rms));
    };
    const ProfileEntry* scores = find_entry(profile, step, {l, kAttention, Point::kScores});
    double cosine = at(kFeedForward, Point::kAfter, &ProfileEntry::layer_cosine);
    if (std::isnan(cosine)) cosine = at(kFeedForward, Point::kSum, &ProfileEntry::layer_cosine);
    layers.push_back({.layer = l,
                      .stream = at(kAttention, Point::kX, &ProfileEntry::rms),
                      .attention = share(kAttention),
                      .feed_forward = share(kFeedForward),
                      .middle = at(kFeedForward, Point::kX, &ProfileEntry::rms),
                      .cosine = cosine,
                      .tokens = at(kAttention, Point::kX, &ProfileEntry::token_cosine),
                      .logits = at(kAttention, Point::kScores, &ProfileEntry::abs_max),
                      .entropy = scores == nullptr ? Subject::kUnknown
                                                   : scores->entropy.value_or(Subject::kUnknown),
                      .gradient = at(kAttention, Point::kX, &ProfileEntry::grad_rms)});
  }
  return layers;
}

}  // namespace addnorm::doctor
