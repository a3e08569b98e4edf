#include "doctor/norm_fit.h"

#include <cmath>

namespace addnorm::doctor {

bool is_of_rows(const NormFit& fit) {
  constexpr double kMostUnexplained = 0.05;  // bfloat16 leaves 0.004, a norm over another axis 0.1
  return fit.unexplained.value_or(0) <= kMostUnexplained;
}

bool divides_by_another_statistic(const DivisorFit& divisor) {
  return divisor.noise > 0.05;
}

double expected_scale(const Placements& placements, const Site& site) {
  const Placement* placement = placement_at(placements, site);
  if (placement == nullptr || site.point != Point::kBefore) return 1;
  return placement->before_scale.value({site.layer + 1, placements->size()});
}

double gain_rms(const Subject& subject, const ProfileEntry& gamma) {
  const auto form = subject.profile.model.norm_at(gamma.site.layer).gamma_form;
  const double offset = form == GammaForm::kOnePlus ? 1 : 0;
  return std::hypot(gamma.mean + offset, gamma.std);
}

bool is_doubled(const DivisorFit& fit) {
  return std::abs(fit.scale - 2) < 0.1 || (fit.slope && std::abs(*fit.slope - 0.25) < 0.01);
}

bool is_said_of_most(const Subject& subject, const ProfileEntry& norm,
                     const std::function<bool(const NormFit&)>& says) {
  std::size_t alike = 0, all = 0;
  for_norms(subject, [&](const ProfileEntry& other, const NormFit& fit) {
    const io::ProfileModel& model = subject.profile.model;
    if (other.site.sublayer != norm.site.sublayer || other.site.point != norm.site.point) return;
    if (model.norm_at(other.site.layer) != model.norm_at(norm.site.layer)) return;
    if (norm.site.sublayer == SublayerKind::kFinalNorm && other.site.layer != norm.site.layer)
      return;
    ++all;
    alike += says(fit);
  });
  const bool stands_alone = all == 1;
  return says(fit_or_empty(norm.norm)) && (stands_alone || (alike > 1 && 2 * alike >= all));
}

}  // namespace addnorm::doctor
