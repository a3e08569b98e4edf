#include "addnorm/nn/add_norm.h"

#include "base/require.h"
#include "base/time_account.h"
#include "kernels/check.h"
#include "nn/copy.h"
#include "nn/lane_mix.h"
#include "nn/observed.h"
#include "nn/slot.h"

namespace addnorm {
template <typename T>
void AddNorm<T>::forward(ResidualStream<T>& stream, Sublayer<T>& branch, const Pass<T>& pass) {
  const ScopedTimer timer(Cost::kAddNorm);
  resize(pass.rows());

  // h = before(x); with several lanes x = a·R(X)
  read(stream, pass);

  // f = inside(F(h))
  branch.forward(branch_input(), branch_, pass);
  if (inside_) inside_->forward({.x = branch_}, {}, f_, pass);

  // u = f, or the placement's Update of f and x
  u_ = update_.is_branch(pass) ? branch_output() : update_.forward(branch_output(), x_, pass);

  // s = skip ⊙ x + gain ⊙ dropout(u); with several lanes S = A·X + b ⊗ dropout(u)
  write(stream, pass);
  if (pass.probe != nullptr) stream.value();  // so that the probe can observe s

  // y = after(s)
  if (after_) {
    stream.normalize(*after_, y_.view(), pass);
    stream.replace(y_);
  }
  if (pass.probe != nullptr) observe(pass);
}

template <typename T>
void AddNorm<T>::backward(StreamGradient<T>& gradient, Sublayer<T>& branch, const Pass<T>& pass) {
  require(!x_.empty(), "add_norm: backward was called before forward");
  const MatrixView<Value> d_sum = gradient.first();
  kernels::check_shape("add_norm", "gradient", d_sum, s_.rows, s_.cols);
  const ScopedTimer timer(Cost::kAddNorm);
  Matrix<T>& d_before = pass.memory().d_before;
  d_before.resize(x_.rows, x_.cols);

  // ds from y = after(s)
  if (after_) {
    observe_gradient(Point::kAfter, d_sum, pass);
    after_->backward({.s = s_, .dy = d_sum, .dx = d_sum}, pass);
  }

  // du from s = skip ⊙ x + gain ⊙ dropout(u)
  observe_sum_gradient(gradient, pass);
  MatrixView<T> d_branch = write_backward(gradient, pass);

  // df from u
  if (!update_.is_branch(pass)) {
    Matrix<Value>& d_x = pass.memory().d_read;
    d_x.resize(x_.rows, x_.cols);
    update_.backward(branch_output(), x_, d_branch, d_x, pass);
  }

  // dh from f = inside(F(h))
  if (inside_) {
    observe_gradient(Point::kInside, d_branch, pass);
    Matrix<T>& d_normed = pass.memory().d_branch;
    inside_->backward({.s = branch_, .dy = d_branch, .dx = d_normed}, pass);
    d_branch = d_normed;
  }
  observe_gradient(Point::kBranch, d_branch, pass);
  branch.backward(branch_input(), d_branch, d_before, pass);

  // dx = skip ⊙ ds + before'(dh) + x's gradient through u; with several lanes dX = Aᵀ·dS +
  // aᵀ·before'(dh)
  if (before_) observe_gradient(Point::kBefore, d_before.view(), pass);
  read_backward(gradient, d_before, pass);
}

template <typename T>
void AddNorm<T>::read(ResidualStream<T>& stream, const Pass<T>& pass) {
  if (lanes_) {
    x_ = lanes_->read(stream, pass);
    if (before_) before_->forward(x_, h_, pass);
  } else {
    if (before_) stream.normalize(before_->front(), h_.view(), pass);
    x_ = stream.value();
  }
  kernels::check_shape("add_norm", "x", x_, reads() * pass.rows(), options_.d_model);
  if constexpr (!kIsArithmetic<T>) {
    if (!before_) kernels::convert<Value, T>(x_, h_);
  }
}

template <typename T>
void AddNorm<T>::write(ResidualStream<T>& stream, const Pass<T>& pass) {
  if (!lanes_) {
    stream.add(residual(pass), sum_);
    s_ = sum_;
    return;
  }
  const Dropout dropout = residual(pass).dropout;
  if (dropout.active()) {
    dropped_.resize(u_.rows, u_.cols);
    residual_add<T>({.x = u_, .branch = u_, .skip = {.constant = 0}, .dropout = dropout}, dropped_);
    lanes_->write(stream, dropped_);
  } else {
    lanes_->write(stream, u_);
  }
  sums_ = stream.lanes();
  s_ = sums_.front();
}

/// Returns the gradient of u; it is the gradient of s itself if f is added unchanged.
template <typename T>
MatrixView<T> AddNorm<T>::write_backward(StreamGradient<T>& gradient, const Pass<T>& pass) {
  const ResidualAdd<Value, T> add = residual(pass);
  const bool changes_u = !update_.is_branch(pass) || inside_;
  const MatrixView<Value> d_sum = gradient.first();
  Matrix<T>& d_branch = pass.memory().d_branch;
  if (lanes_) {
    d_branch.resize(u_.rows, u_.cols);
    lanes_->write_backward(gradient, d_branch, pass);
    if (add.dropout.active()) {
      residual_add_backward<T>({.add = {.x = u_, .branch = u_, .dropout = add.dropout},
                                .d_sum = d_branch,
                                .d_branch = d_branch});
    }
    return d_branch;
  }
  if constexpr (kIsArithmetic<T>) {
    if (add.gain.is_one() && !add.dropout.active() && skip_.learned().empty() &&
        gain_.learned().empty() && !changes_u) {
      return d_sum;
    }
  }
  d_branch.resize(d_sum.rows, d_sum.cols);
  residual_add_backward<Value, T>({.add = add,
                                   .d_sum = d_sum,
                                   .d_branch = d_branch,
                                   .d_skip = skip_.gradient(),
                                   .d_gain = gain_.gradient()});
  skip_.take_gradient();
  gain_.take_gradient();
  return d_branch;
}

template <typename T>
void AddNorm<T>::read_backward(StreamGradient<T>& gradient, MatrixView<const T> d_before,
                               const Pass<T>& pass) {
  const bool has_x = !update_.is_branch(pass);  // whether d_x holds x's gradient through u
  Matrix<Value>& d_x = pass.memory().d_read;
  if (lanes_) {
    if (!has_x) d_x.resize(x_.rows, x_.cols);
    if (before_) {
      const MatrixView<const Value> of_u = has_x ? d_x.view() : MatrixView<Value>();
      before_->backward({.s = x_, .dy = d_before, .d_residual = of_u, .dx = d_x}, pass);
    } else if (has_x) {
      residual_add<Value, T>({.x = d_x, .branch = d_before}, d_x);
    } else {
      nn::copy<T, Value>(d_before, d_x);
    }
    observe_gradient(Point::kX, d_x.view(), pass);
    lanes_->read_backward(gradient, d_x, pass);
    return;
  }
  const MatrixView<Value> dx = gradient.first();
  const Scale<Value> skip = skip_.value();
  if (before_) {
    before_->front().backward({.s = x_, .dy = d_before, .d_residual = dx, .skip = skip, .dx = dx},
                              pass);
  } else {
    residual_add<Value, T>({.x = dx, .branch = d_before, .skip = skip}, dx);
  }
  if (has_x) residual_add<Value>({.x = dx, .branch = d_x}, dx);
  observe_gradient(Point::kX, dx, pass);
}

template <typename T>
AddNorm<T>::AddNorm(const Placement& placement, const AddNormOptions& options)
    : placement_(placement),
      options_(options),
      skip_(placement.skip, options.depth, options.d_model),
      gain_(placement.gain, options.depth, options.d_model),
      update_(placement, {options.depth, options.sublayer, options.lanes}, options.d_model) {
  require(options.d_model > 0, "add_norm: d_model is 0, must be at least 1");
  require(options.depth.layer >= 1 && options.depth.layer <= options.depth.layers,
          "add_norm: layer {} of {} does not exist; layers count from 1", options.depth.layer,
          options.depth.layers);
  const Place place{options.depth, options.sublayer, options.lanes};
  if (placement.lanes.several()) {
    lanes_.emplace(placement.lanes, place, options.d_model, options.norm, options.affine);
  }
  const bool adds_f =
      placement.update == Update::kBranch && placement.survival.value(options.depth) == 1;
  require(reads() == 1 || adds_f,
          "add_norm: placement \"{}\" reads {} mixes, must add the output of F unchanged",
          placement.name, reads());
  const auto fill = [&](Slot slot, auto& norm, double output_scale, auto... mixes) {
    nn::emplace_norm(slot, norm, options.norm, options.d_model, options.affine, output_scale,
                     mixes...);
  };
  fill(placement.before, before_, placement.before_scale.value(options.depth), reads());
  fill(placement.inside, inside_, 1);
  fill(placement.after, after_, 1);
  if (inside_ && !inside_->gamma().empty()) {
    const auto gamma = static_cast<Value>(placement.inside_gamma.value(options.depth));
    const bool one_plus = options.norm.gamma_form == GammaForm::kOnePlus;
    inside_->gamma().value.fill(one_plus ? gamma - 1 : gamma);
  }
}

template <typename T>
MatrixView<const T> AddNorm<T>::branch_input() const {
  if constexpr (kIsArithmetic<T>) {
    if (!before_) return x_;
  }
  return h_;
}

template <typename T>
ResidualAdd<Arithmetic<T>, T> AddNorm<T>::residual(const Pass<T>& pass) {
  const std::uint64_t place =
      8 * options_.depth.layer + static_cast<std::size_t>(options_.sublayer);
  return {.x = x_,
          .branch = u_,
          .skip = skip_.value(),
          .gain = gain_.value(),
          .dropout = {.probability = pass.mode == Mode::kTraining ? options_.dropout : 0,
                      .seed = pass.dropout_seed,
                      .offset = (place << 40) + pass.first_row * options_.d_model}};
}

template <typename T>
void AddNorm<T>::resize(std::size_t rows) {
  if (before_ || !kIsArithmetic<T>) h_.resize(reads() * rows, options_.d_model);
  branch_.resize(rows, options_.d_model);
  if (inside_) f_.resize(rows, options_.d_model);
  if (!lanes_) sum_.resize(rows, options_.d_model);
  if (after_) y_.resize(rows, options_.d_model);
}

template <typename T>
Site AddNorm<T>::site(Point point, NormSlot norm) const {
  return {options_.depth.layer - 1, options_.sublayer, point, norm};
}

template <typename T>
void AddNorm<T>::observe(const Pass<T>& pass) const {
  auto value = [&]<typename V>(Point point, MatrixView<const V> values) {
    Site at = site(point);
    for (const MatrixView<const V> mix : nn::lanes_of(values, values.rows / pass.rows())) {
      pass.probe->forward(at, Observed<V>(mix));
      ++at.lane;
    }
  };
  auto norm = [&](NormSlot slot, const auto& n, const auto& s) {
    if (n) n->observe(site(Point::kMean, slot), s, pass);
  };
  value(Point::kX, x_);
  norm(NormSlot::kBefore, before_, x_);
  if (before_) value(Point::kBefore, h_.view());
  value(Point::kBranch, branch_.view());
  norm(NormSlot::kInside, inside_, branch_.view());
  if (inside_) value(Point::kInside, f_.view());
  if (!lanes_) value(Point::kSum, sum_.view());
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    Site of_lane = site(Point::kSum);
    of_lane.lane = i;
    pass.probe->forward(of_lane, Observed<Value>(sums_[i]));
  }
  norm(NormSlot::kAfter, after_, s_);
  if (after_) value(Point::kAfter, y_.view());
}

template <typename T>
template <typename V>
void AddNorm<T>::observe_gradient(Point point, MatrixView<V> gradient, const Pass<T>& pass) const {
  if (pass.probe == nullptr) return;
  Site at = site(point);
  for (const MatrixView<V> mix : nn::lanes_of(gradient, gradient.rows / pass.rows())) {
    pass.probe->backward(at, Observed<V>(mix));
    ++at.lane;
  }
}

/// Reports the gradient of the sum to the probe, lane by lane.
template <typename T>
void AddNorm<T>::observe_sum_gradient(const StreamGradient<T>& gradient,
                                      const Pass<T>& pass) const {
  if (!lanes_) observe_gradient(Point::kSum, gradient.first(), pass);
  for (std::size_t i = 0; pass.probe != nullptr && i < gradient.lanes.size(); ++i) {
    Site of_lane = site(Point::kSum);
    of_lane.lane = i;
    pass.probe->backward(of_lane, Observed<Value>(gradient.lanes[i]));
  }
}

template <typename T>
void AddNorm<T>::list_parameters(const std::string& prefix, ParameterList<Value>& list) {
  if (before_) before_->list_parameters(join_names(prefix, "before"), list);
  if (inside_) inside_->list_parameters(join_names(prefix, "inside"), list);
  list_parameter(list, prefix, "skip", skip_.learned());
  list_parameter(list, prefix, "gain", gain_.learned());
  update_.list_parameters(prefix, list);
  if (lanes_) lanes_->list_parameters(prefix, list);
  if (after_) after_->list_parameters(join_names(prefix, "after"), list);
}

template class AddNorm<float>;
template class AddNorm<double>;
template class AddNorm<BFloat16>;

}  // namespace addnorm
