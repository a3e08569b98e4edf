#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "addnorm/nn/norm.h"
#include "addnorm/nn/residual_stream.h"

namespace addnorm {

/// The norms of the mixes that a sublayer reads, whose rows are one below the other. They are of
/// the same kind, each with its own parameters.
template <typename T>
class MixNorms {
  static_assert(check_module<T>());

 public:
  using Value = Arithmetic<T>;
  using One = Norm<T, Value, T>;

  ADDNORM_API MixNorms(const NormOptions& options, std::size_t features, Affine affine,
                       std::size_t mixes);

  /// y = norm(x), in one pass with a pending sum if there is one mix.
  ADDNORM_API void forward(ResidualStream<T>& x, MatrixView<T> y, const Pass<T>& pass);
  /// Runs Norm::backward on each mix.
  ADDNORM_API void backward(const typename One::Backward& args, const Pass<T>& pass);
  /// Reports each mix's norm; the site's lane is the index of the mix.
  ADDNORM_API void observe(Site site, MatrixView<const Value> x, const Pass<T>& pass) const;
  /// Uses the names of Norm for one norm, and "prefix.0.gamma" and so on for several.
  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<Value>& list);

 private:
  std::vector<One> norms_;
};

}  // namespace addnorm
