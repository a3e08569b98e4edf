#include "report/doctor_bands.h"

#include <algorithm>
#include <cmath>

#include "doctor/norm_fit.h"
#include "doctor/placements.h"

namespace addnorm::report {
namespace {

/// Whether branches are added to a stream that no norm or factor changes between them.
bool adds_up(const Placement& placement) {
  return placement.name == "pre" || placement.name == "sandwich" || placement.name == "reordered";
}

/// Whether all layers have the number. A band has no gaps.
bool are_known(const std::vector<doctor::LayerNumbers>& layers,
               double doctor::LayerNumbers::*member) {
  return !layers.empty() && std::ranges::none_of(layers, [&](const doctor::LayerNumbers& layer) {
    return std::isnan(layer.*member);
  });
}

bool has_shares(const std::vector<doctor::LayerNumbers>& layers) {
  return are_known(layers, &doctor::LayerNumbers::stream) &&
         are_known(layers, &doctor::LayerNumbers::middle) &&
         are_known(layers, &doctor::LayerNumbers::attention) &&
         are_known(layers, &doctor::LayerNumbers::feed_forward);
}

/// Whether the last measurement was made before training.
bool is_before_training(const doctor::Subject& subject) {
  return doctor::is_initial(subject) &&
         doctor::last_step(subject.profile) == doctor::first_step(subject.profile);
}

Band sums_band(const doctor::Subject& subject, const Placement& placement,
               const std::vector<doctor::LayerNumbers>& layers) {
  Band band;
  const bool are_one = placement.inside == Slot::kNorm && is_before_training(subject);
  double power = layers.front().stream * layers.front().stream;
  double length = layers.front().stream;
  for (const doctor::LayerNumbers& layer : layers) {
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

std::vector<NormGains> norm_gains(const doctor::Subject& subject) {
  std::vector<NormGains> norms;
  for (const doctor::ProfileEntry& entry : doctor::last_entries(subject.profile)) {
    if (entry.site.point != Point::kGamma || !entry.site.in_layer()) continue;
    const auto same = std::ranges::find_if(norms, [&](const NormGains& norm) {
      Site site = norm.site;
      site.layer = entry.site.layer;
      return site == entry.site;
    });
    NormGains& norm =
        same != norms.end() ? *same : norms.emplace_back(NormGains{entry.site, {}, {}});
    norm.layer.push_back(static_cast<double>(entry.site.layer));
    norm.gain.push_back(doctor::gain_rms(subject, entry));
  }
  return norms;
}

double effective_depth(const std::vector<doctor::LayerNumbers>& layers) {
  double sum = 0, squares = 0;
  for (const doctor::LayerNumbers& layer : layers) {
    const double angle = std::acos(std::clamp(layer.cosine, -1.0, 1.0));
    sum += angle;
    squares += angle * angle;
  }
  return squares > 0 ? sum * sum / squares : doctor::Subject::kUnknown;
}

Band stream_band(const doctor::Subject& subject, const std::vector<doctor::LayerNumbers>& layers) {
  const doctor::Placements placements = doctor::placements_of(subject.profile.model);
  const Placement* placement = doctor::only_placement(placements);
  if (placement == nullptr || !has_shares(layers)) return {};
  const std::optional<NormKind> norm = subject.profile.model.norm;
  if (norm && squashes(*norm) && placement->before != Slot::kNorm) return {};  // no output of RMS 1
  if (adds_up(*placement)) return sums_band(subject, *placement, layers);
  if (placement->after != Slot::kNorm || !is_before_training(subject)) return {};
  Band band;
  for (const doctor::LayerNumbers& layer : layers) {
    if (layer.layer == 0) continue;
    band.layer.push_back(static_cast<double>(layer.layer));
    band.low.push_back(0.99);
    band.high.push_back(1.01);
  }
  return band;
}

Band gradient_band(const doctor::Subject& subject,
                   const std::vector<doctor::LayerNumbers>& layers) {
  const doctor::Placements placements = doctor::placements_of(subject.profile.model);
  const Placement* placement = doctor::only_placement(placements);
  const bool applies = placement != nullptr && adds_up(*placement) && is_before_training(subject) &&
                       has_shares(layers) && are_known(layers, &doctor::LayerNumbers::gradient);
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

}  // namespace addnorm::report
