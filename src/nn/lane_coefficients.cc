#include "addnorm/nn/lane_coefficients.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "gemm/gemm.h"
#include "kernels/column_sums.h"
#include "nn/lane_mix.h"
#include "nn/mix_map.h"

namespace addnorm {
namespace {

constexpr double kEpsilon = 1e-6;  // of N, as in DeepSeek-V4

using Source = MixForm::Source;

/// The first sublayer has none before it: it reads the first lane.
bool reads_nothing_before(const MixForm& form, const Place& place) {
  return form.source == Source::kPrevious && place.site() == 0;
}

constexpr MixForm kFirstLane{
    .base = [](const Place&, std::size_t, std::size_t lane) { return double(lane == 0); }};

}  // namespace

MixWeights mix_weights(const MixForm& form, MixUse use, const Place& place, const MixShape& shape) {
  if (form.source == Source::kNone || reads_nothing_before(form, place)) return {};
  if (form.source == Source::kLane) return {use == MixUse::kWrite ? 1 : shape.to, shape.features};
  return {nn::MixMap<double>::logits_of(form.map, shape.to, shape.from),
          place.lanes * shape.features};
}

std::vector<double> initial_numbers(const MixForm& given, const Place& place, std::size_t to,
                                    std::size_t from) {
  const MixForm& form = reads_nothing_before(given, place) ? kFirstLane : given;
  const nn::MixMap<double> map(form.map, to, from);
  std::vector<double> logits(map.logits()), numbers(map.numbers());
  for (std::size_t k = 0; k < logits.size(); ++k) {
    logits[k] = form.base(place, k / from, k % from);
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
      std::ranges::copy(initial_numbers(form.carry, place, 1, n), mixes.carry.end() - n);
    }
    mixes.write.resize(after);
    mixes.write.back() = 1;
  }
  mixes.read = initial_numbers(form.read, place, 1, form.reads_carried ? after : n);
  if (!form.reads_carried) return mixes;
  std::vector<double> of_x(n);  // a·A
  for (std::size_t i = 0; i < after; ++i) {
    for (std::size_t j = 0; j < n; ++j) of_x[j] += mixes.read[i] * mixes.carry[i * n + j];
  }
  mixes.read = of_x;
  return mixes;
}

template <typename V>
LaneCoefficients<V>::LaneCoefficients(const MixForm& form, MixUse use, const Place& place,
                                      const MixShape& shape)
    : form_(form), use_(use), shape_(shape) {
  if (reads_nothing_before(form_, place)) form_ = kFirstLane;
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

/// The column of raw_ that a logit is made of: those of kLane stand lane by lane.
template <typename V>
std::size_t LaneCoefficients<V>::raw_index(std::size_t logit) const {
  if (form_.source != Source::kLane || use_ == MixUse::kWrite) return logit;
  return logit % shape_.from * shape_.to + logit / shape_.from;
}

template <typename V>
std::vector<typename LaneCoefficients<V>::Part> LaneCoefficients<V>::parts(
    const MixSource<const V>& source, const MixSource<V>& gradients) const {
  std::vector<Part> all;
  const auto gradient = [](const auto& lanes, std::size_t i) {
    return lanes.empty() ? MatrixView<V>() : lanes[i];
  };
  const std::size_t logits = map_->logits();
  const bool from_before = form_.source == Source::kPrevious;
  const auto& lanes = from_before ? source.previous : source.lanes;
  const auto& d_lanes = from_before ? gradients.previous : gradients.lanes;
  const bool lane_by_lane = form_.source == Source::kLane;
  const std::size_t count = lane_by_lane ? weight_.value.rows() : logits;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    all.push_back({.values = lanes[i],
                   .gradient = gradient(d_lanes, i),
                   .first_column = lane_by_lane ? 0 : i * shape_.features,
                   .first = lane_by_lane ? i * count : 0,
                   .count = count,
                   .norm = lane_by_lane ? i : 0});
  }
  return all;
}

/// How many features share a norm.
template <typename V>
std::size_t LaneCoefficients<V>::width() const {
  return weight_.value.cols();
}

template <typename V>
void LaneCoefficients<V>::find_logits(std::size_t r, std::span<V> logits) const {
  std::ranges::copy(constants_, logits.begin());
  for (std::size_t i = 0; i < learned_.size(); ++i) logits[learned_[i]] = base_.value(0, i);
  for (std::size_t k = 0; is_made() && k < logits.size(); ++k) {
    const std::size_t raw = raw_index(k);
    V in = raw_(r, raw) * reciprocals_(r, norm_of(raw));
    if (form_.act == MixForm::Act::kTanh) in = std::tanh(in);
    logits[k] += scale() * in;
  }
}

template <typename V>
void LaneCoefficients<V>::forward(const MixSource<const V>& source) {
  std::size_t rows = 1;
  if (is_made()) {
    const std::vector<Part> all = parts(source, {});
    rows = all.front().values.rows;
    raw_.resize(rows,
                form_.source == Source::kLane ? all.size() * all.front().count : map_->logits());
    reciprocals_.resize(rows, form_.source == Source::kLane ? all.size() : 1);
    reciprocals_.fill(0);
    for (const Part& part : all) {
      const MatrixView<V> raw = raw_.view().block(0, part.first, rows, part.count);
      gemm::gemm<V>(
          {.a = part.values,
           .b = weight_.value.view().block(0, part.first_column, part.count, part.values.cols),
           .transpose_b = gemm::Transpose::kYes,
           .c = raw,
           .beta = V(part.first_column > 0 ? 1 : 0)});
      for (std::size_t r = 0; r < rows; ++r) {
        reciprocals_(r, part.norm) += nn::dot<V>(part.values.row(r), part.values.row(r));
      }
    }
    for (V& sum : reciprocals_.flat()) {
      sum = 1 / std::sqrt(sum / static_cast<V>(width()) + static_cast<V>(kEpsilon));
    }
  }
  numbers_.resize(rows, map_->numbers());
  d_numbers_.resize(rows, map_->numbers());
  d_numbers_.fill(0);
  parallel_for(rows, row_grain(64 * map_->numbers()), [&](std::size_t r) {
    std::vector<V> logits(map_->logits());
    find_logits(r, logits);
    map_->forward(logits, numbers_.view().row(r));
  });
}

template <typename V>
void LaneCoefficients<V>::backward(const MixSource<const V>& source,
                                   const MixSource<V>& gradients) {
  if (!is_made() && learned_.empty()) return;
  const std::size_t rows = numbers_.rows(), logits = map_->logits();
  Matrix<V> d_logits(rows, logits), d_raw, d_scale(rows, 1), d_norm;
  if (is_made()) {
    d_raw.resize(rows, raw_.cols());
    d_norm.resize(rows, reciprocals_.cols());
    d_norm.fill(0);
  }
  parallel_for(rows, row_grain(64 * map_->numbers()), [&](std::size_t r) {
    std::vector<V> of_row(logits);
    find_logits(r, of_row);
    map_->backward(of_row, numbers_.view().row(r), d_numbers_.view().row(r),
                   d_logits.view().row(r));
    d_scale(r, 0) = 0;
    for (std::size_t k = 0; is_made() && k < logits; ++k) {
      const std::size_t raw = raw_index(k), norm = norm_of(raw);
      const V in = raw_(r, raw) * reciprocals_(r, norm);
      const bool squashed = form_.act == MixForm::Act::kTanh;
      const V out = squashed ? std::tanh(in) : in;
      d_scale(r, 0) += d_logits(r, k) * out;
      const V d_in = scale() * d_logits(r, k) * (squashed ? 1 - out * out : V{1});
      d_raw(r, raw) = d_in * reciprocals_(r, norm);
      d_norm(r, norm) += d_in * raw_(r, raw);
    }
  });
  if (!learned_.empty()) {
    kernels::add_column_sums<V>(
        rows, learned_.size(), base_.gradient.flat(),
        [&](std::size_t r, std::size_t i) { return d_logits(r, learned_[i]); });
  }
  if (!is_made()) return;
  if (!scale_.empty()) {
    kernels::add_column_sums<V>(rows, 1, scale_.gradient.flat(),
                                [&](std::size_t r, std::size_t) { return d_scale(r, 0); });
  }
  for (const Part& part : parts(source, gradients)) {
    const MatrixView<const V> d = d_raw.view().block(0, part.first, rows, part.count);
    const auto columns = [&](Matrix<V>& weight) {
      return weight.view().block(0, part.first_column, part.count, part.values.cols);
    };
    gemm::gemm<V>({.a = d,
                   .transpose_a = gemm::Transpose::kYes,
                   .b = part.values,
                   .c = columns(weight_.gradient),
                   .beta = 1});
    if (part.gradient.empty()) continue;
    gemm::gemm<V>({.a = d, .b = columns(weight_.value), .c = part.gradient, .beta = 1});
    // Of 1/√(mean of squares + ε).
    parallel_for(rows, row_grain(part.values.cols), [&](std::size_t r) {
      const V reciprocal = reciprocals_(r, part.norm);
      const V factor =
          -d_norm(r, part.norm) * reciprocal * reciprocal * reciprocal / static_cast<V>(width());
      const auto values = part.values.row(r);
      const auto gradient = part.gradient.row(r);
      for (std::size_t c = 0; c < values.size(); ++c) gradient[c] += factor * values[c];
    });
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
