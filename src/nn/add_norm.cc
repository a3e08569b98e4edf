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

  // h = before(x). With several lanes, x is the mix z = a·R(X) of them (see placement.h).
  ResidualStream<T>& x = stream_site().read(stream, pass);
  if (before_) before_->forward(x, h_, pass);
  x_ = x.value();
  kernels::check_shape("add_norm", "x", x_, stream_site().reads() * pass.rows(), options_.d_model);
  input_ = before_ ? h_.view() : nn::converted(x_, h_);

  // f = inside(F(h))
  branch.forward(input_, branch_, pass);
  if (inside_) inside_->forward({.x = branch_}, {}, f_, pass);

  // u = f or update(f, x)
  u_ = update_.is_branch(pass) ? branch_output() : update_.forward(branch_output(), x_, pass);

  // s = skip ⊙ x + gain ⊙ dropout(u). With several lanes, X′ = A·X + b ⊗ dropout(u).
  stream_site().write(stream, u_, dropout(pass));
  if (pass.probe != nullptr) stream.value();  // computes a pending s for observe()

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
  const MatrixView<const Value> s = stream_site().sums().front();
  const MatrixView<Value> ds = gradient.first();
  kernels::check_shape("add_norm", "gradient", ds, s.rows, s.cols);
  const ScopedTimer timer(Cost::kAddNorm);

  // ds from y = after(s)
  if (after_) {
    observe_gradient(Point::kAfter, ds, pass);
    after_->backward({.s = s, .dy = ds, .dx = ds}, pass);
  }
  observe_gradient(Point::kSum, gradient.all(), pass);

  // The gradients of the write: du, in `df` for now, and skip ⊙ residual, the part of dx that comes
  // directly from s.
  auto [df, residual, skip, dx] = stream_site().write_backward(gradient, pass);
  Matrix<T>& d_branch = pass.memory().d_branch;

  // df from du. `df` still holds du here; the two are equal if u is f.
  Matrix<Value>& dx_of_u = pass.memory().d_update;
  const bool changed = !update_.is_branch(pass);
  if (changed) {
    d_branch.resize(u_.rows, u_.cols);
    dx_of_u.resize(x_.rows, x_.cols);
    update_.backward(branch_output(), x_, df, d_branch, dx_of_u, pass);
    df = d_branch;
  }

  // dh from f = inside(F(h))
  if (inside_) {
    observe_gradient(Point::kInside, df, pass);
    d_branch.resize(u_.rows, u_.cols);
    inside_->backward({.s = branch_, .dy = df, .dx = d_branch}, pass);
    df = d_branch;
  }
  observe_gradient(Point::kBranch, df, pass);
  Matrix<T>& dh = pass.memory().d_before;
  dh.resize(x_.rows, x_.cols);
  branch.backward(input_, df, dh, pass);

  // dx = skip ⊙ residual + (dh passed back through `before`) + (du passed back to x through the
  // update). With several lanes, read_backward() propagates dx to the lanes and to the coefficients
  // of the mixes.
  if (before_) {
    observe_gradient(Point::kBefore, dh.view(), pass);
    before_->backward({.s = x_, .dy = dh, .d_residual = residual, .skip = skip, .dx = dx}, pass);
  } else if (residual.empty()) {
    nn::copy<T, Value>(dh, dx);
  } else {
    residual_add<Value, T>({.x = residual, .branch = dh, .skip = skip}, dx);
  }
  if (changed) residual_add<Value>({.x = dx, .branch = dx_of_u}, dx);
  observe_gradient(Point::kX, dx, pass);
  stream_site().read_backward(gradient, dx, pass);
}

template <typename T>
AddNorm<T>::AddNorm(const Placement& placement, const AddNormOptions& options)
    : placement_(placement),
      options_(options),
      one_lane_(placement, options.depth, options.d_model),
      update_(placement, {options.depth, options.sublayer, options.lanes}, options.d_model) {
  require(options.d_model > 0, "add_norm: d_model is 0, must be at least 1");
  require(options.depth.layer >= 1 && options.depth.layer <= options.depth.layers,
          "add_norm: layer {} of {} does not exist; layers are counted from 1", options.depth.layer,
          options.depth.layers);
  const Place place{options.depth, options.sublayer, options.lanes};
  if (placement.lanes.several()) {
    lanes_.emplace(placement.lanes, place, options.d_model, options.norm, options.affine);
  }
  const bool adds_f =
      placement.update == Update::kBranch && placement.survival.value(options.depth) == 1;
  const std::size_t mixes = stream_site().reads();
  require(mixes == 1 || adds_f,
          "add_norm: placement \"{}\" reads {} mixes of lanes, so its update must be f itself, "
          "and its survival probability 1",
          placement.name, mixes);
  const auto make_norm = [&](Slot slot, auto& norm, double output_scale, auto... n_mixes) {
    nn::emplace_norm(slot, norm, options.norm, options.d_model, options.affine, output_scale,
                     n_mixes...);
  };
  make_norm(placement.before, before_, placement.before_scale.value(options.depth), mixes);
  make_norm(placement.inside, inside_, 1);
  make_norm(placement.after, after_, 1);
  if (inside_ && !inside_->gamma().empty()) {
    const auto gamma = static_cast<Value>(placement.inside_gamma.value(options.depth));
    const bool one_plus = options.norm.gamma_form == GammaForm::kOnePlus;
    inside_->gamma().value.fill(one_plus ? gamma - 1 : gamma);
  }
}

template <typename T>
Dropout AddNorm<T>::dropout(const Pass<T>& pass) const {
  // Each sublayer has 2^40 random numbers of its own.
  const std::uint64_t place =
      8 * options_.depth.layer + static_cast<std::size_t>(options_.sublayer);
  return {.probability = pass.mode == Mode::kTraining ? options_.dropout : 0,
          .seed = pass.dropout_seed,
          .offset = (place << 40) + pass.first_row * options_.d_model};
}

template <typename T>
void AddNorm<T>::resize(std::size_t rows) {
  if (before_) h_.resize(stream_site().reads() * rows, options_.d_model);
  branch_.resize(rows, options_.d_model);
  if (inside_) f_.resize(rows, options_.d_model);
  if (after_) y_.resize(rows, options_.d_model);
}

template <typename T>
Site AddNorm<T>::site(Point point, NormSlot norm) const {
  return {options_.depth.layer - 1, options_.sublayer, point, norm};
}

template <typename T>
void AddNorm<T>::observe(const Pass<T>& pass) {
  const auto observe_lanes = [&]<typename V>(Point point, const LaneList<V>& values) {
    Site at = site(point);
    for (const MatrixView<V>& lane : values) {
      pass.probe->forward(at, Observed<std::remove_const_t<V>>(lane));
      ++at.lane;
    }
  };
  const auto observe_value = [&](Point point, const auto& values) {
    observe_lanes(point, nn::lanes_of(values, values.rows / pass.rows()));
  };
  const auto observe_norm = [&](NormSlot slot, const auto& n, const auto& s) {
    if (n) n->observe(site(Point::kMean, slot), s, pass);
  };
  observe_value(Point::kX, x_);
  observe_norm(NormSlot::kBefore, before_, x_);
  if (before_) observe_value(Point::kBefore, h_.view());
  observe_value(Point::kBranch, branch_.view());
  observe_norm(NormSlot::kInside, inside_, branch_.view());
  if (inside_) observe_value(Point::kInside, f_.view());
  observe_lanes(Point::kSum, stream_site().sums());
  observe_norm(NormSlot::kAfter, after_, stream_site().sums().front());
  if (after_) observe_value(Point::kAfter, y_.view());
}

template <typename T>
template <typename V>
void AddNorm<T>::observe_gradient(Point point, std::span<const MatrixView<V>> lanes,
                                  const Pass<T>& pass) const {
  if (pass.probe == nullptr) return;
  Site at = site(point);
  for (const MatrixView<V>& lane : lanes) {
    pass.probe->backward(at, Observed<std::remove_const_t<V>>(lane));
    ++at.lane;
  }
}

/// Reports a gradient to the probe. If F reads several mixes of lanes, the rows of `gradient` are
/// those of the first mix, then those of the second, and so on.
template <typename T>
template <typename V>
void AddNorm<T>::observe_gradient(Point point, MatrixView<V> gradient, const Pass<T>& pass) const {
  if (pass.probe == nullptr) return;
  const LaneList<V> mixes = nn::lanes_of(gradient, gradient.rows / pass.rows());
  observe_gradient(point, std::span(mixes), pass);
}

template <typename T>
void AddNorm<T>::list_parameters(const std::string& prefix, ParameterList<Value>& list) {
  if (before_) before_->list_parameters(join_names(prefix, "before"), list);
  if (inside_) inside_->list_parameters(join_names(prefix, "inside"), list);
  stream_site().list_parameters(prefix, list);
  update_.list_parameters(prefix, list);
  if (after_) after_->list_parameters(join_names(prefix, "after"), list);
}

template class AddNorm<float>;
template class AddNorm<double>;
template class AddNorm<BFloat16>;

}  // namespace addnorm
