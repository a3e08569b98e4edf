#include "addnorm/nn/stream_site.h"

namespace addnorm {

template <typename T>
void OneLaneSite<T>::write(ResidualStream<T>& stream, MatrixView<const T> u,
                           const Dropout& dropout) {
  add_ = {.x = stream.value(),
          .branch = u,
          .skip = skip_.value(),
          .gain = gain_.value(),
          .dropout = dropout};
  sum_.resize(u.rows, u.cols);
  stream.add(add_, sum_);
  this->sums_.assign(1, sum_);
}

/// The gradient of u is that of s itself if u is added unchanged.
template <typename T>
WriteGradients<T> OneLaneSite<T>::write_backward(StreamGradient<T>& gradient, const Pass<T>& pass) {
  const MatrixView<Value> d = gradient.first();
  WriteGradients<T> result{.residual = d, .skip = add_.skip, .dx = d};
  if constexpr (kIsArithmetic<T>) {
    if (add_.gain.is_one() && !add_.dropout.active() && skip_.learned().empty() &&
        gain_.learned().empty()) {
      result.du = d;
      return result;
    }
  }
  Matrix<T>& du = pass.memory().d_branch;
  du.resize(d.rows, d.cols);
  residual_add_backward<Value, T>({.add = add_,
                                   .d_sum = d,
                                   .d_branch = du,
                                   .d_skip = skip_.gradient(),
                                   .d_gain = gain_.gradient()});
  skip_.take_gradient();
  gain_.take_gradient();
  result.du = du;
  return result;
}

template <typename T>
void OneLaneSite<T>::list_parameters(const std::string& prefix, ParameterList<Value>& list) {
  list_parameter(list, prefix, "skip", skip_.learned());
  list_parameter(list, prefix, "gain", gain_.learned());
}

template class OneLaneSite<float>;
template class OneLaneSite<double>;
template class OneLaneSite<BFloat16>;

}  // namespace addnorm
