#include "doctor/layers.h"

#include <algorithm>
#include <cmath>

#include "doctor/places.h"

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
                   : constant(placement->*member, depth).value_or(Subject::kUnknown);
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

double gain(const Subject& subject, const ProfileEntry& gamma) {
  const auto form = subject.profile.model.norm_at(gamma.site.layer).gamma_form;
  const double offset = form == GammaForm::kOnePlus ? 1 : 0;
  return std::hypot(gamma.mean + offset, gamma.std);
}

std::vector<NormGains> norm_gains(const Subject& subject) {
  std::vector<NormGains> norms;
  for (const ProfileEntry& entry : last_entries(subject.profile)) {
    if (entry.site.point != Point::kGamma || !entry.site.in_layer()) continue;
    const auto same = std::ranges::find_if(norms, [&](const NormGains& norm) {
      Site site = norm.site;
      site.layer = entry.site.layer;
      return site == entry.site;
    });
    NormGains& norm =
        same != norms.end() ? *same : norms.emplace_back(NormGains{entry.site, {}, {}});
    norm.layer.push_back(static_cast<double>(entry.site.layer));
    norm.gain.push_back(gain(subject, entry));
  }
  return norms;
}

double effective_depth(const std::vector<LayerNumbers>& layers) {
  double sum = 0, squares = 0;
  for (const LayerNumbers& layer : layers) {
    const double angle = std::acos(std::clamp(layer.cosine, -1.0, 1.0));
    sum += angle;
    squares += angle * angle;
  }
  return squares > 0 ? sum * sum / squares : Subject::kUnknown;
}

namespace {

/// Whether branches are added to a stream that no norm or factor changes between them.
bool adds_up(const Placement& placement) {
  return placement.name == "pre" || placement.name == "sandwich" || placement.name == "reordered";
}

/// Whether all layers have the number. A band has no gaps.
bool are_known(const std::vector<LayerNumbers>& layers, double LayerNumbers::*member) {
  return !layers.empty() && std::ranges::none_of(layers, [&](const LayerNumbers& layer) {
    return std::isnan(layer.*member);
  });
}

bool has_shares(const std::vector<LayerNumbers>& layers) {
  return are_known(layers, &LayerNumbers::stream) && are_known(layers, &LayerNumbers::middle) &&
         are_known(layers, &LayerNumbers::attention) &&
         are_known(layers, &LayerNumbers::feed_forward);
}

/// Whether the last measurement was made before training.
bool is_before_training(const Subject& subject) {
  return is_initial(subject) && last_step(subject.profile) == first_step(subject.profile);
}

Band sums_band(const Subject& subject, const Placement& placement,
               const std::vector<LayerNumbers>& layers) {
  Band band;
  const bool are_one = placement.inside == Slot::kNorm && is_before_training(subject);
  double power = layers.front().stream * layers.front().stream;
  double length = layers.front().stream;
  for (const LayerNumbers& layer : layers) {
    band.layer.push_back(static_cast<double>(layer.layer));
    band.low.push_back(std::sqrt(power));
    band.high.push_back(length);
    const double attention = are_one ? 1 : layer.attention * layer.stream;
    const double feed_forward = are_one ? 1 : layer.feed_forward * layer.middle;
    power += attention * attention + feed_forward * feed_forward;
    length += attention + feed_forward;
  }
  return band;
}

}  // namespace

Band stream_band(const Subject& subject, const std::vector<LayerNumbers>& layers) {
  const Placements placements = placements_of(subject.profile.model);
  const Placement* placement = only_placement(placements);
  if (placement == nullptr || !has_shares(layers)) return {};
  const std::optional<NormKind> norm = subject.profile.model.norm;
  if (norm && squashes(*norm) && placement->before != Slot::kNorm) return {};  // no output of RMS 1
  if (adds_up(*placement)) return sums_band(subject, *placement, layers);
  if (placement->after != Slot::kNorm || !is_before_training(subject)) return {};
  Band band;
  for (const LayerNumbers& layer : layers) {
    if (layer.layer == 0) continue;
    band.layer.push_back(static_cast<double>(layer.layer));
    band.low.push_back(0.99);
    band.high.push_back(1.01);
  }
  return band;
}

Band gradient_band(const Subject& subject, const std::vector<LayerNumbers>& layers) {
  const Placements placements = placements_of(subject.profile.model);
  const Placement* placement = only_placement(placements);
  const bool applies = placement != nullptr && adds_up(*placement) && is_before_training(subject) &&
                       has_shares(layers) && are_known(layers, &LayerNumbers::gradient);
  if (!applies) return {};
  Band band;
  const double last = layers.back().gradient;
  double high = last;
  for (std::size_t i = layers.size(); i-- > 0;) {
    if (i + 1 < layers.size()) high *= (1 + layers[i].attention) * (1 + layers[i].feed_forward);
    band.layer.push_back(static_cast<double>(layers[i].layer));
    band.low.push_back(last);
    band.high.push_back(high);
  }
  for (auto* values : {&band.layer, &band.low, &band.high}) std::ranges::reverse(*values);
  return band;
}

}  // namespace addnorm::doctor
