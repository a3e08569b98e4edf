#include "kernels/feature_vector.h"

namespace addnorm::kernels {

template <typename V>
void FeatureVector<V>::stage(V* room, std::size_t features, bool copy) {
  room_ = room;
  const bool fits = features <= kStagedFeatures<V>;
  if (as_given() && !(copy && fits)) {
    ready_ = given_.data();
  } else if (fits) {
    make(0, features);
    ready_ = room;
  }
}

template <typename V>
void FeatureVector<V>::make(std::size_t begin, std::size_t n) const {
  if (given_.empty()) {
    for (std::size_t i = 0; i < n; ++i) room_[i] = absent_;
  } else if (one_plus_) {
    for (std::size_t i = 0; i < n; ++i) room_[i] = (V{1} + given_[begin + i]) * factor_;
  } else {
    for (std::size_t i = 0; i < n; ++i) room_[i] = given_[begin + i] * factor_;
  }
}

template class FeatureVector<float>;
template class FeatureVector<double>;

}  // namespace addnorm::kernels
