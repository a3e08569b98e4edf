#include "addnorm/nn/add_norm.h"

#include "base/require.h"
#include "base/time_account.h"
#include "kernels/check.h"
#include "nn/observed.h"

namespace addnorm {

template <typename T>
void AddNorm<T>::forward(ResidualStream<T>& stream, Sublayer<T>& branch, const Pass<T>& pass) {
  const ScopedTimer timer(Cost::kAddNorm);
  resize(pass.rows());

  // h = before(x)
  if (before_) stream.normalize(*before_, h_.view(), pass);
  x_ = stream.value();
  kernels::check_shape("add_norm", "x", x_, pass.rows(), options_.d_model);
  if constexpr (!kIsArithmetic<T>) {
    if (!before_) kernels::convert<Value, T>(x_, h_);
  }

  // f = inside(F(h))
  branch.forward(branch_input(), branch_, pass);
  if (inside_) inside_->forward({.x = branch_}, {}, f_, pass);

  // s = skip ⊙ x + gain ⊙ dropout(f)
  stream.add(residual(pass), sum_);
  if (pass.probe != nullptr) stream.value();  // so that there is an s to look at

  // y = after(s)
  if (after_) {
    stream.normalize(*after_, y_.view(), pass);
    stream.replace(y_);
  }
  if (pass.probe != nullptr) observe(pass);
}

template <typename T>
void AddNorm<T>::backward(MatrixView<Value> gradient, Sublayer<T>& branch, const Pass<T>& pass) {
  require(!x_.empty(), "add_norm: a backward without a forward");
  kernels::check_shape("add_norm", "gradient", gradient, x_.rows, x_.cols);
  const ScopedTimer timer(Cost::kAddNorm);
  Matrix<T>& d_before = pass.memory().d_before;
  d_before.resize(x_.rows, x_.cols);

  // ds of y = after(s)
  if (after_) {
    observe_gradient(Point::kAfter, gradient, pass);
    after_->backward({.s = sum_, .dy = gradient, .dx = gradient}, pass);
  }

  // df of s = skip ⊙ x + gain ⊙ dropout(f)
  observe_gradient(Point::kSum, gradient, pass);
  MatrixView<T> d_branch = residual_backward(gradient, pass);

  // dh of f = inside(F(h))
  if (inside_) {
    observe_gradient(Point::kInside, d_branch, pass);
    Matrix<T>& d_normed = pass.memory().d_branch;
    inside_->backward({.s = branch_, .dy = d_branch, .dx = d_normed}, pass);
    d_branch = d_normed;
  }
  observe_gradient(Point::kBranch, d_branch, pass);
  branch.backward(branch_input(), d_branch, d_before, pass);

  // dx = skip ⊙ ds + before'(dh)
  const Scale<Value> skip = scale(placement_.skip, skip_);
  if (before_) {
    observe_gradient(Point::kBefore, d_before.view(), pass);
    before_->backward(
        {.s = x_, .dy = d_before, .d_residual = gradient, .skip = skip, .dx = gradient}, pass);
  } else {
    residual_add<Value, T>({.x = gradient, .branch = d_before, .skip = skip}, gradient);
  }
  observe_gradient(Point::kX, gradient, pass);
}

template <typename T>
AddNorm<T>::AddNorm(const Placement& placement, const AddNormOptions& options)
    : placement_(placement), options_(options) {
  require(options.d_model > 0, "add_norm: d_model is 0, must be at least 1");
  require(options.depth.layer >= 1 && options.depth.layer <= options.depth.layers,
          "add_norm: layer {} of {} is none, they count from 1", options.depth.layer,
          options.depth.layers);
  auto fill_slot = [&](Slot slot, auto& norm, double output_scale) {
    if (slot == Slot::kNothing) return;
    NormOptions norm_options = options.norm;
    norm_options.output_scale *= output_scale;
    norm.emplace(norm_options, options.d_model, options.affine);
  };
  fill_slot(placement.before, before_, placement.before_scale.value(options.depth));
  fill_slot(placement.inside, inside_, 1);
  fill_slot(placement.after, after_, 1);

  auto learn = [&](const ResidualFactor& factor, Parameter<Value>& parameter) {
    using Form = ResidualFactor::Form;
    if (factor.form == Form::kConstant) return;
    const std::size_t size = factor.form == Form::kLearnedScalar ? 1 : options.d_model;
    parameter = Parameter<Value>(1, size, ParameterRole::kResidualFactor,
                                 static_cast<Value>(factor.initial.value(options.depth)));
  };
  learn(placement.skip, skip_);
  learn(placement.gain, gain_);
}

template <typename T>
MatrixView<const T> AddNorm<T>::branch_input() const {
  if constexpr (kIsArithmetic<T>) {
    if (!before_) return x_;
  }
  return h_;
}

template <typename T>
Scale<Arithmetic<T>> AddNorm<T>::scale(const ResidualFactor& factor,
                                       const Parameter<Value>& learned) const {
  switch (factor.form) {
    case ResidualFactor::Form::kLearnedScalar:
      return {.constant = learned.value(0, 0)};
    case ResidualFactor::Form::kLearnedVector:
      return {.vector = learned.value.flat()};
    default:
      return {.constant = static_cast<Value>(factor.initial.value(options_.depth))};
  }
}

template <typename T>
ResidualAdd<Arithmetic<T>, T> AddNorm<T>::residual(const Pass<T>& pass) const {
  const std::uint64_t place =
      8 * options_.depth.layer + static_cast<std::size_t>(options_.sublayer);
  return {.x = x_,
          .branch = branch_output(),
          .skip = scale(placement_.skip, skip_),
          .gain = scale(placement_.gain, gain_),
          .dropout = {.probability = pass.mode == Mode::kTraining ? options_.dropout : 0,
                      .seed = pass.dropout_seed,
                      .offset = (place << 40) + pass.first_row * options_.d_model}};
}

/// The gradient of f; that of s itself where the branch is added as it is.
template <typename T>
MatrixView<T> AddNorm<T>::residual_backward(MatrixView<Value> d_sum, const Pass<T>& pass) {
  const ResidualAdd<Value, T> add = residual(pass);
  if constexpr (kIsArithmetic<T>) {
    if (add.gain.is_one() && !add.dropout.active() && skip_.empty() && gain_.empty() && !inside_) {
      return d_sum;
    }
  }
  Matrix<T>& d_branch = pass.memory().d_branch;
  d_branch.resize(d_sum.rows, d_sum.cols);
  residual_add_backward<Value, T>({.add = add,
                                   .d_sum = d_sum,
                                   .d_branch = d_branch,
                                   .d_skip = skip_.gradient.flat(),
                                   .d_gain = gain_.gradient.flat()});
  return d_branch;
}

template <typename T>
void AddNorm<T>::resize(std::size_t rows) {
  if (before_ || !kIsArithmetic<T>) h_.resize(rows, options_.d_model);
  branch_.resize(rows, options_.d_model);
  if (inside_) f_.resize(rows, options_.d_model);
  sum_.resize(rows, options_.d_model);
  if (after_) y_.resize(rows, options_.d_model);
}

template <typename T>
Site AddNorm<T>::site(Point point, NormSlot norm) const {
  return {options_.depth.layer - 1, options_.sublayer, point, norm};
}

template <typename T>
void AddNorm<T>::observe(const Pass<T>& pass) const {
  auto value = [&]<typename V>(Point point, MatrixView<const V> values) {
    pass.probe->forward(site(point), Observed<V>(values));
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
  value(Point::kSum, sum_.view());
  norm(NormSlot::kAfter, after_, sum_.view());
  if (after_) value(Point::kAfter, y_.view());
}

template <typename T>
template <typename V>
void AddNorm<T>::observe_gradient(Point point, MatrixView<V> gradient, const Pass<T>& pass) const {
  if (pass.probe != nullptr) pass.probe->backward(site(point), Observed<V>(gradient));
}

template <typename T>
void AddNorm<T>::list_parameters(const std::string& prefix, ParameterList<Value>& list) {
  if (before_) before_->list_parameters(join_names(prefix, "before"), list);
  if (inside_) inside_->list_parameters(join_names(prefix, "inside"), list);
  list_parameter(list, prefix, "skip", skip_);
  list_parameter(list, prefix, "gain", gain_);
  if (after_) after_->list_parameters(join_names(prefix, "after"), list);
}

template class AddNorm<float>;
template class AddNorm<double>;
template class AddNorm<BFloat16>;

}  // namespace addnorm
