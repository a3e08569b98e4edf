#include "addnorm/nn/lane_site.h"

#include <algorithm>

#include "base/require.h"
#include "nn/copy.h"
#include "nn/lane_mix.h"

namespace addnorm {
namespace {

using Source = MixForm::Source;

template <typename V>
LaneList<const V> readable(const LaneList<V>& lanes) {
  return {lanes.begin(), lanes.end()};
}

/// Returns the lanes as a kernel's argument, or an empty view if they are not equally spaced.
template <typename V>
LanesView<V> strided(const LaneList<V>& lanes) {
  const auto& [data, rows, cols, stride] = lanes.front();
  const std::ptrdiff_t distance = lanes.size() > 1 ? lanes[1].data - data : 0;
  if (distance < 0) return {};
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const bool fits = lanes[i].data == data + static_cast<std::ptrdiff_t>(i) * distance;
    if (!fits || lanes[i].stride != stride) return {};
  }
  return {data, rows, lanes.size(), cols, stride, static_cast<std::size_t>(distance)};
}

/// sum = x + u
template <typename V>
void add(MatrixView<const V> x, MatrixView<const V> u, MatrixView<V> sum) {
  residual_add<V>({.x = x, .branch = u}, sum);
}

/// Returns the lanes that make up a source.
template <typename V>
LaneList<V> source_lanes(Source source, const LaneList<V>& lanes) {
  return source == Source::kLast ? LaneList<V>{lanes.back()} : lanes;
}

/// Calls body(shape, weights) for each mix.
template <typename Shapes, typename Body>
void for_each_mix(const LaneForm& form, const Place& place, Shapes& shapes, const Body& body) {
  auto& [features, read, carry, write, hidden] = shapes;
  body(read, mix_weights(form.read, MixUse::kRead, place, read));
  if (carry) body(*carry, mix_weights(form.carry, MixUse::kCarry, place, *carry));
  if (write) body(*write, mix_weights(form.write, MixUse::kWrite, place, *write));
}

}  // namespace

MixShapes::MixShapes(const LaneForm& form, const Place& place, std::size_t d_model) {
  const Changes changes = form.changes(place);
  const std::size_t n = place.lanes, parts = form.splits_features ? n : 1;
  const std::size_t after = n + (changes == Changes::kAppend);
  features = d_model / parts;
  read = {parts * form.reads(place), form.reads_carried ? after : n, features};
  if (changes != Changes::kLast) carry = {changes == Changes::kAll ? n : 1, n, features};
  if (changes == Changes::kAll) write = {n, parts, features};
  if (!form.hidden) return;
  for_each_mix(form, place, *this, [&](auto&, const MixWeights& w) { hidden += w.rows; });
  for_each_mix(form, place, *this, [&](MixShape& mix, const auto&) { mix.hidden = hidden; });
}

LaneForm exit_form(LaneForm form) {
  form.read = form.exit;
  form.reads = LaneForm().reads;
  form.reads_carried = false;
  form.last_lane = form.last_lane_at_exit;
  form.changes = [](const Place&) { return Changes::kLast; };
  return form;
}

std::size_t lane_weights(const LaneForm& form, const Place& place, std::size_t d_model) {
  const MixShapes shapes(form, place, d_model);
  std::size_t weights = shapes.hidden * source_width(form.read.source, place, shapes.features);
  for_each_mix(form, place, shapes,
               [&](const MixShape&, const MixWeights& w) { weights += w.rows * w.cols; });
  return weights;
}

template <typename T>
LaneSite<T>::LaneSite(const LaneForm& form, const Place& place, std::size_t d_model,
                      const NormOptions& norm, Affine affine)
    : form_(form),
      place_(place),
      changes_(form.changes(place)),
      reads_(form.reads(place)),
      features_(MixShapes(form, place, d_model).features),
      read_(form.read, MixUse::kRead, place, MixShapes(form, place, d_model).read) {
  const MixShapes shapes(form, place, d_model);
  require(!form.splits_features || features_ * place.lanes == d_model,
          "add_norm: {} features do not make {} lanes of equal width", d_model, place.lanes);
  require(!form.splits_features || reads_ == 1,
          "add_norm: {} mixes are to be read of lanes that are parts of the features, must be 1",
          reads_);
  if (shapes.carry) carry_.emplace(form.carry, MixUse::kCarry, place, *shapes.carry);
  if (shapes.write) write_.emplace(form.write, MixUse::kWrite, place, *shapes.write);
  for (const Source source : {Source::kStream, Source::kPrevious, Source::kLane, Source::kLast}) {
    if (mixes_of(source).empty()) continue;
    const std::size_t width = source_width(source, place, features_);
    heads_.emplace_back(source, MixWeights{shapes.hidden, width});
  }
  require(!form.hidden || heads_.size() < 2, "add_norm: a hidden layer is for mixes of one source");
  if (form.last_lane == Slot::kNorm) last_lane_.emplace(norm, features_, affine);
}

/// Splits a matrix of d_model features into the parts that belong to one lane each: one part,
/// unless lanes are parts of the features.
template <typename T>
template <typename V>
LaneList<V> LaneSite<T>::parts(MatrixView<V> of_model) const {
  LaneList<V> list;
  for (std::size_t c = 0; c < of_model.cols; c += features_) {
    list.push_back(of_model.block(0, c, of_model.rows, features_));
  }
  return list;
}

/// Returns the part of z that each row of a computes.
template <typename T>
template <typename V>
LaneList<V> LaneSite<T>::reads_of(MatrixView<V> z) const {
  return form_.splits_features ? parts(z) : nn::lanes_of(z, reads_);
}

/// A·X, for all lanes or for the appended one.
template <typename T>
void LaneSite<T>::carry(const LaneList<Value>& to) const {
  nn::mix<Value>(carry_->numbers(), x_, to, nn::Into::kReplace);
}

template <typename T>
ResidualStream<T>& LaneSite<T>::read(ResidualStream<T>& stream, const Pass<T>& pass) {
  x_ = stream.lanes();
  if (x_.empty()) x_ = {stream.value()};  // the sublayers before this one had no lanes
  previous_ = stream.previous();
  const std::size_t rows = pass.rows();
  require(x_.size() == lanes(), "add_norm: the stream has {} lanes, must have {}", x_.size(),
          lanes());
  make_coefficients();
  read_from_ = x_;
  if (last_lane_) {
    normalized_.resize(rows, features_);
    last_lane_->forward({.x = x_.back()}, {}, normalized_.view(), pass);
    read_from_.back() = normalized_;
  }
  if (form_.reads_carried && carry_) {
    const std::size_t made = changes_ == Changes::kAll ? lanes() : 1;
    carried_.resize(made * rows, features_);
    const LaneList<Value> carried = nn::lanes_of(carried_.view(), made);
    carry(carried);
    if (changes_ == Changes::kAll) read_from_.clear();
    read_from_.insert(read_from_.end(), carried.begin(), carried.end());
  }
  z_.resize(reads_ * rows, form_.splits_features ? lanes() * features_ : features_);
  nn::mix<Value>(read_.numbers(), read_from_, reads_of(z_.view()), nn::Into::kReplace);
  z_stream_.replace(z_);
  return z_stream_;
}

/// Returns the arguments for the kernels of lanes, which require that all lanes change and are
/// equally spaced.
template <typename T>
LanesForward<Arithmetic<T>, T> LaneSite<T>::kernel_arguments(MatrixView<const T> u) const {
  if (changes_ != Changes::kAll || form_.reads_carried) return {};
  const std::size_t parts = form_.splits_features ? lanes() : 1;
  return {.x = strided(x_),
          .branch = {u.data, u.rows, parts, features_, u.stride, features_},
          .carry = carry_->numbers(),
          .write = write_->numbers()};
}

/// Returns dropout(u).
template <typename T>
MatrixView<const T> LaneSite<T>::dropped(MatrixView<const T> u, const Dropout& dropout) {
  if (!dropout.active()) return u;
  dropped_.resize(u.rows, u.cols);
  residual_add<T>({.x = u, .branch = u, .skip = {.constant = 0}, .dropout = dropout}, dropped_);
  return dropped_;
}

template <typename T>
void LaneSite<T>::write(ResidualStream<T>& stream, MatrixView<const T> u, const Dropout& dropout) {
  dropout_ = dropout;
  u_ = dropped(u, dropout);
  this->sums_ = x_;
  if (changes_ == Changes::kAll) {
    sum_.resize(lanes() * u.rows, features_);
    const LaneList<Value> sums = nn::lanes_of(sum_.view(), lanes());
    LanesForward<Value, T> kernel = kernel_arguments(u_);
    if (!kernel.x.empty()) {
      kernel.sum = strided(sums);
      lanes_forward(kernel);
    } else {
      carry(sums);
      nn::mix<Value>(write_->numbers(), parts(nn::converted(u_, wide_u_)), sums, nn::Into::kAdd);
    }
    this->sums_ = readable(sums);
  } else {
    const MatrixView<const Value> wide_u = nn::converted(u_, wide_u_);
    sum_.resize(u.rows, features_);
    if (changes_ == Changes::kAppend) {
      carry({sum_.view()});
      add<Value>(sum_, wide_u, sum_);
      this->sums_.push_back(sum_);
    } else {
      add<Value>(x_.back(), wide_u, sum_);
      this->sums_.back() = sum_;
    }
  }
  stream.advance(this->sums_);
}

template <typename T>
WriteGradients<T> LaneSite<T>::write_backward(StreamGradient<T>& gradient, const Pass<T>& pass) {
  Matrix<T>& du = pass.memory().d_branch;
  du.resize(u_.rows, u_.cols);
  if (!kernel_backward(gradient, du, pass)) mix_backward(gradient, du, pass);
  if (dropout_.active()) {
    residual_add_backward<T>(
        {.add = {.x = u_, .branch = u_, .dropout = dropout_}, .d_sum = du, .d_branch = du});
  }
  Matrix<Value>& dz = pass.memory().d_read;
  dz.resize(z_.rows(), z_.cols());
  return {.du = du, .dx = dz};
}

/// Runs the backward of the write with the kernels of lanes. Returns false if they do not support
/// it.
template <typename T>
bool LaneSite<T>::kernel_backward(StreamGradient<T>& gradient, MatrixView<T> du,
                                  const Pass<T>& pass) {
  const LanesForward<Value, T> kernel = kernel_arguments(u_);
  const LanesView<Value> d = strided(gradient.lanes);
  if (kernel.x.empty() || d.empty()) return false;
  Matrix<Value>& workspace = pass.memory().norm;
  workspace.resize(1, lanes_workspace(du.rows, lanes(), features_));
  lanes_backward<Value, T>(
      {.forward = kernel,
       .d_sum = d,
       .dx = d,
       .d_branch = {du.data, du.rows, kernel.branch.lanes, features_, du.stride, features_},
       .d_carry = carry_->d_numbers(),
       .d_write = write_->d_numbers(),
       .workspace = workspace.flat()});
  return true;
}

/// Runs the backward of the mixes without these kernels, lane by lane.
template <typename T>
void LaneSite<T>::mix_backward(StreamGradient<T>& gradient, MatrixView<T> du, const Pass<T>& pass) {
  Matrix<Value>& d_update = pass.memory().d_update;
  d_update.resize(du.rows, du.cols);
  if (changes_ == Changes::kAll) {
    d_update.fill(0);
    nn::mix_backward<Value>({.m = write_->numbers(),
                             .in = parts(nn::converted(u_, wide_u_)),
                             .d_out = readable(gradient.lanes),
                             .d_in = parts(d_update.view()),
                             .d_m = write_->d_numbers()});
  } else {
    residual_add<Value>({.x = gradient.lanes.back()}, d_update);
  }
  nn::copy<Value, T>(d_update, du);
  if (carry_ && !form_.reads_carried) carry_backward(gradient, pass);
}

/// dX = Aᵀ·G and dA, where G is the gradient of A·X.
template <typename T>
void LaneSite<T>::carry_backward(StreamGradient<T>& gradient, const Pass<T>& pass) {
  LaneList<Value>& d = gradient.lanes;
  if (changes_ == Changes::kAppend) {
    const MatrixView<Value> d_new = d.back();
    d.pop_back();
    nn::mix_backward<Value>({.m = carry_->numbers(),
                             .in = x_,
                             .d_out = {d_new},
                             .d_in = d,
                             .d_m = carry_->d_numbers()});
    return;
  }
  Matrix<Value>& d_lanes = pass.memory().d_lanes;
  d_lanes.resize(lanes() * d.front().rows, features_);
  d_lanes.fill(0);
  const LaneList<Value> d_x = nn::lanes_of(d_lanes.view(), lanes());
  nn::mix_backward<Value>({.m = carry_->numbers(),
                           .in = x_,
                           .d_out = readable(d),
                           .d_in = d_x,
                           .d_m = carry_->d_numbers()});
  for (std::size_t i = 0; i < d.size(); ++i) nn::copy<Value, Value>(d_x[i], d[i]);
}

template <typename T>
void LaneSite<T>::read_backward(StreamGradient<T>& gradient, MatrixView<const Value> dz,
                                const Pass<T>& pass) {
  LaneList<Value> d = gradient.lanes;
  if (last_lane_) {
    Matrix<Value>& d_last = pass.memory().d_last_lane;
    d_last.resize(x_.back().rows, features_);
    d_last.fill(0);
    d.back() = d_last;
  }
  nn::mix_backward<Value>({.m = read_.numbers(),
                           .in = read_from_,
                           .d_out = reads_of(dz),
                           .d_in = d,
                           .d_m = read_.d_numbers()});
  if (last_lane_) {
    const MatrixView<Value> last = gradient.lanes.back();
    last_lane_->backward({.s = x_.back(), .dy = d.back(), .d_residual = last, .dx = last}, pass);
  }
  if (carry_ && form_.reads_carried) carry_backward(gradient, pass);
  coefficients_backward(gradient);
}

template <typename T>
std::vector<LaneCoefficients<Arithmetic<T>>*> LaneSite<T>::mixes_of(Source source) {
  std::vector<LaneCoefficients<Value>*> mixes;
  const auto add = [&](LaneCoefficients<Value>& mix) {
    if (mix.source() == source) mixes.push_back(&mix);
  };
  add(read_);
  if (carry_) add(*carry_);
  if (write_) add(*write_);
  return mixes;
}

template <typename T>
LaneList<const Arithmetic<T>> LaneSite<T>::lanes_of(Source source) const {
  return source_lanes(source, source == Source::kPrevious ? previous_ : x_);
}

template <typename T>
void LaneSite<T>::make_coefficients() {
  for (LaneCoefficients<Value>* mix : mixes_of(Source::kNone)) mix->forward({});
  for (LaneHead<Value>& head : heads_) {
    head.forward(mixes_of(head.source()), lanes_of(head.source()));
  }
}

template <typename T>
void LaneSite<T>::coefficients_backward(StreamGradient<T>& gradient) {
  const Matrix<Value> pending = std::move(gradient.of_previous);
  for (LaneCoefficients<Value>* mix : mixes_of(Source::kNone)) mix->backward({}, {});
  for (LaneHead<Value>& head : heads_) {
    LaneList<Value> d_lanes = source_lanes(head.source(), gradient.lanes);
    if (head.source() == Source::kPrevious) {
      gradient.of_previous.resize(previous_.size() * previous_.front().rows, features_);
      gradient.of_previous.fill(0);
      d_lanes = nn::lanes_of(gradient.of_previous.view(), previous_.size());
    }
    head.backward(mixes_of(head.source()), lanes_of(head.source()), d_lanes);
  }
  if (pending.empty()) return;
  const LaneList<const Value> of_lane = nn::lanes_of(pending.view(), lanes());
  for (std::size_t i = 0; i < lanes(); ++i) {
    add<Value>(gradient.lanes[i], of_lane[i], gradient.lanes[i]);
  }
}

template <typename T>
void LaneSite<T>::list_parameters(const std::string& prefix, ParameterList<Value>& list) {
  read_.list_parameters(join_names(prefix, "read"), list);
  if (carry_) carry_->list_parameters(join_names(prefix, "carry"), list);
  if (write_) write_->list_parameters(join_names(prefix, "write"), list);
  for (LaneHead<Value>& head : heads_) list_parameter(list, prefix, "hidden", head.hidden());
  if (last_lane_) last_lane_->list_parameters(join_names(prefix, "last_lane"), list);
}

template class LaneSite<float>;
template class LaneSite<double>;
template class LaneSite<BFloat16>;

}  // namespace addnorm
