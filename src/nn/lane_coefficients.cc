#include "addnorm/nn/lane_coefficients.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/parallel.h"
#include "kernels/column_sums.h"
#include "nn/mix_map.h"

namespace addnorm {
namespace {

using Source = MixForm::Source;

/// Whether this is the first sublayer of a form that uses the previous sublayer's lanes. It reads
/// the first lane instead.
bool reads_nothing_before(const MixForm& form, const Place& place) {
  return form.source == Source::kPrevious && place.site() == 0;
}

constexpr MixForm kFirstLane{
    .base = [](const Place&, std::size_t, std::size_t lane) { return double(lane == 0); }};

/// Returns the base for a learned number.
template <typename V>
V gated(MixForm::Gate gate, V learned) {
  return gate == MixForm::Gate::kSigmoid ? 1 / (1 + std::exp(-learned)) : learned;
}

}  // namespace

MixForm form_at(MixForm form, const Place& place) {
  if (reads_nothing_before(form, place)) return kFirstLane;
  if (!form.made(place)) form.source = Source::kNone;
  return form;
}

std::size_t source_width(Source source, const Place& place, std::size_t features) {
  const bool of_one = source == Source::kLane || source == Source::kLast;
  return of_one ? features : place.lanes * features;
}

MixWeights mix_weights(const MixForm& given, MixUse use, const Place& place,
                       const MixShape& shape) {
  const MixForm form = form_at(given, place);
  if (form.source == Source::kNone) return {};
  if (form.source == Source::kLane) return {use == MixUse::kWrite ? 1 : shape.to, shape.features};
  return {nn::MixMap<double>::logits_of(form.map, shape.to, shape.from),
          shape.hidden > 0 ? shape.hidden : source_width(form.source, place, shape.features)};
}

std::vector<double> initial_numbers(const MixForm& given, const Place& place, std::size_t to,
                                    std::size_t from) {
  const MixForm form = form_at(given, place);
  const nn::MixMap<double> map(form.map, to, from);
  std::vector<double> logits(map.logits()), numbers(map.numbers());
  for (std::size_t k = 0; k < logits.size(); ++k) {
    logits[k] = form.base(place, k / from, k % from);
    if (form.learned(place, k / from, k % from)) logits[k] = gated(form.gate, logits[k]);
  }
  map.forward(logits, numbers);
  return numbers;
}

InitialMixes initial_mixes(const Placement& placement, const Place& place) {
  const LaneForm& form = placement.lanes;
  if (!form.several()) {
    return {.read = {1},
            .carry = {placement.skip.initial.value(place.depth)},
            .write = {placement.gain.initial.value(place.depth)}};
  }
  const Changes changes = form.changes(place);
  const std::size_t n = place.lanes, after = n + (changes == Changes::kAppend);
  InitialMixes mixes{.lanes = n, .lanes_after = after};
  if (changes == Changes::kAll) {
    mixes.carry = initial_numbers(form.carry, place, n, n);
    mixes.write = initial_numbers(form.write, place, n, 1);
  } else {
    mixes.carry.resize(after * n);
    for (std::size_t i = 0; i < n; ++i) mixes.carry[i * n + i] = 1;
    if (changes == Changes::kAppend) {
      std::ranges::copy(initial_numbers(form.carry, place, 1, n),
                        std::span(mixes.carry).last(n).begin());
    }
    mixes.write.resize(after);
    mixes.write.back() = 1;
  }
  const std::size_t reads = form.reads(place);
  mixes.read = initial_numbers(form.read, place, reads, form.reads_carried ? after : n);
  if (!form.reads_carried) return mixes;
  std::vector<double> of_x(reads * n);  // a·A
  for (std::size_t k = 0; k < reads * after; ++k) {
    for (std::size_t j = 0; j < n; ++j) {
      of_x[k / after * n + j] += mixes.read[k] * mixes.carry[k % after * n + j];
    }
  }
  mixes.read = of_x;
  return mixes;
}

template <typename V>
LaneCoefficients<V>::LaneCoefficients(const MixForm& form, MixUse use, const Place& place,
                                      const MixShape& shape)
    : form_(form_at(form, place)), use_(use), shape_(shape) {
  map_ = std::make_unique<nn::MixMap<V>>(form_.map, shape.to, shape.from);
  const std::size_t logits = map_->logits();
  for (std::size_t k = 0; k < logits; ++k) {
    constants_.push_back(static_cast<V>(form_.base(place, k / shape.from, k % shape.from)));
    if (form_.learned(place, k / shape.from, k % shape.from)) learned_.push_back(k);
  }
  if (!learned_.empty()) {
    base_ = Parameter<V>(1, learned_.size(), ParameterRole::kResidualFactor);
    for (std::size_t i = 0; i < learned_.size(); ++i) base_.value(0, i) = constants_[learned_[i]];
  }
  if (is_made()) {
    const MixWeights weights = mix_weights(form, use, place, shape);
    weight_ = Parameter<V>(weights.rows, weights.cols, ParameterRole::kWeight);
    if (form_.scale != 1) {
      scale_ = Parameter<V>(1, 1, ParameterRole::kResidualFactor, static_cast<V>(form_.scale));
    }
  }
}
template <typename V>
LaneCoefficients<V>::~LaneCoefficients() = default;
template <typename V>
LaneCoefficients<V>::LaneCoefficients(LaneCoefficients&&) noexcept = default;

/// Returns the lane whose products and norm a logit uses, if each lane has its own.
template <typename V>
std::size_t LaneCoefficients<V>::lane_of(std::size_t logit) const {
  if (form_.source != Source::kLane) return 0;
  return use_ == MixUse::kWrite ? logit : logit % shape_.from;
}

template <typename V>
std::size_t LaneCoefficients<V>::column_of(std::size_t logit,
                                           const MixInputs<const V>& inputs) const {
  if (form_.source != Source::kLane) return inputs.first + logit;
  const std::size_t row = use_ == MixUse::kWrite ? 0 : logit / shape_.from;
  return inputs.first + lane_of(logit) * inputs.lane_step + row;
}

template <typename V>
void LaneCoefficients<V>::find_logits(std::size_t r, const MixInputs<const V>& inputs,
                                      std::span<V> logits) const {
  std::ranges::copy(constants_, logits.begin());
  for (std::size_t i = 0; i < learned_.size(); ++i) {
    logits[learned_[i]] = gated(form_.gate, base_.value(0, i));
  }
  for (std::size_t k = 0; is_made() && k < logits.size(); ++k) {
    V in = inputs.products(r, column_of(k, inputs)) * inputs.reciprocals(r, lane_of(k));
    if (form_.act == MixForm::Act::kTanh) in = std::tanh(in);
    logits[k] += scale() * in;
  }
}

template <typename V>
void LaneCoefficients<V>::forward(const MixInputs<const V>& inputs) {
  const std::size_t rows = is_made() ? inputs.products.rows : 1;
  numbers_.resize(rows, map_->numbers());
  d_numbers_.resize(rows, map_->numbers());
  d_numbers_.fill(0);
  parallel_for(rows, row_grain(64 * map_->numbers()), [&](std::size_t r) {
    std::vector<V> logits(map_->logits());
    find_logits(r, inputs, logits);
    map_->forward(logits, numbers_.view().row(r));
  });
}

template <typename V>
void LaneCoefficients<V>::backward(const MixInputs<const V>& inputs,
                                   const MixInputs<V>& gradients) {
  if (!is_made() && learned_.empty()) return;
  const std::size_t rows = numbers_.rows(), logits = map_->logits();
  Matrix<V> d_logits(rows, logits), d_scale(rows, 1);
  parallel_for(rows, row_grain(64 * map_->numbers()), [&](std::size_t r) {
    std::vector<V> of_row(logits);
    find_logits(r, inputs, of_row);
    map_->backward(of_row, numbers_.view().row(r), d_numbers_.view().row(r),
                   d_logits.view().row(r));
    d_scale(r, 0) = 0;
    for (std::size_t k = 0; is_made() && k < logits; ++k) {
      const std::size_t column = column_of(k, inputs), lane = lane_of(k);
      const V product = inputs.products(r, column), reciprocal = inputs.reciprocals(r, lane);
      const V in = product * reciprocal;
      const bool squashed = form_.act == MixForm::Act::kTanh;
      const V out = squashed ? std::tanh(in) : in;
      d_scale(r, 0) += d_logits(r, k) * out;
      const V d_in = scale() * d_logits(r, k) * (squashed ? 1 - out * out : V{1});
      gradients.products(r, column) = d_in * reciprocal;
      gradients.reciprocals(r, lane) += d_in * product;
    }
  });
  if (!learned_.empty()) {
    kernels::add_column_sums<V>(rows, learned_.size(), base_.gradient.flat(),
                                [&](std::size_t r, std::size_t i) {
                                  const V d = d_logits(r, learned_[i]);
                                  if (form_.gate == MixForm::Gate::kNone) return d;
                                  const V share = gated(form_.gate, base_.value(0, i));
                                  return d * share * (1 - share);
                                });
  }
  if (!scale_.empty()) {
    kernels::add_column_sums<V>(rows, 1, scale_.gradient.flat(),
                                [&](std::size_t r, std::size_t) { return d_scale(r, 0); });
  }
}

template <typename V>
void LaneCoefficients<V>::list_parameters(const std::string& prefix, ParameterList<V>& list) {
  list_parameter(list, prefix, "base", base_);
  list_parameter(list, prefix, "scale", scale_);
  list_parameter(list, prefix, "weight", weight_);
}

template class LaneCoefficients<float>;
template class LaneCoefficients<double>;

}  // namespace addnorm
