#include "addnorm/nn/mix_norms.h"

#include "nn/lane_mix.h"

namespace addnorm {

template <typename T>
MixNorms<T>::MixNorms(const NormOptions& options, std::size_t features, Affine affine,
                      std::size_t mixes) {
  for (std::size_t i = 0; i < mixes; ++i) norms_.emplace_back(options, features, affine);
}

template <typename T>
void MixNorms<T>::forward(ResidualStream<T>& x, MatrixView<T> y, const Pass<T>& pass) {
  if (norms_.size() == 1) return x.normalize(norms_.front(), y, pass);
  const auto xs = nn::lanes_of(x.value(), norms_.size());
  const auto ys = nn::lanes_of(y, norms_.size());
  for (std::size_t i = 0; i < norms_.size(); ++i) norms_[i].forward({.x = xs[i]}, {}, ys[i], pass);
}

template <typename T>
void MixNorms<T>::backward(const typename One::Backward& args, const Pass<T>& pass) {
  const std::size_t count = norms_.size();
  if (count == 1) return norms_.front().backward(args, pass);
  const auto s = nn::lanes_of(args.s, count);
  const auto dy = nn::lanes_of(args.dy, count);
  const auto d_residual = nn::lanes_of(args.d_residual, count);
  const auto dx = nn::lanes_of(args.dx, count);
  for (std::size_t i = 0; i < count; ++i) {
    norms_[i].backward(
        {.s = s[i], .dy = dy[i], .d_residual = d_residual[i], .skip = args.skip, .dx = dx[i]},
        pass);
  }
}

template <typename T>
void MixNorms<T>::observe(Site site, MatrixView<const Value> x, const Pass<T>& pass) const {
  const auto xs = nn::lanes_of(x, norms_.size());
  for (site.lane = 0; site.lane < norms_.size(); ++site.lane) {
    norms_[site.lane].observe(site, xs[site.lane], pass);
  }
}

template <typename T>
void MixNorms<T>::list_parameters(const std::string& prefix, ParameterList<Value>& list) {
  if (norms_.size() == 1) return norms_.front().list_parameters(prefix, list);
  for (std::size_t i = 0; i < norms_.size(); ++i) {
    norms_[i].list_parameters(join_names(prefix, std::to_string(i)), list);
  }
}

template class MixNorms<float>;
template class MixNorms<double>;
template class MixNorms<BFloat16>;

}  // namespace addnorm
