#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "addnorm/nn/parameter.h"
#include "addnorm/nn/pass.h"
#include "addnorm/norm.h"

namespace addnorm {

/// The parameters of a norm among γ and β. RMSNorm usually has no β.
enum class Affine {
  kNone,
  kGamma,
  kGammaBeta,
  kScalarGamma,  ///< one γ for all features; SSNorm is RMSNorm with it (Park et al. 2025)
};
constexpr std::array<std::string_view, 4> names_of(Affine) {
  return {"none", "gamma", "gamma-beta", "scalar-gamma"};
}

/// A norm with its parameters and the state for backward, on rows of features. It supports every
/// kind except kInstance, which has nothing to average over on one row. kDyT also learns α; kDerf
/// learns α and the shift. Batch and group norms need contiguous rows, and In = Out. In is the type
/// of the input and Out that of the output, as in AddNormForward; T is that of the Pass. T alone is
/// float, double or BFloat16; (T, In, Out) may be (BFloat16, float, BFloat16) or (BFloat16,
/// BFloat16, BFloat16).
template <typename T, typename In = Arithmetic<T>, typename Out = In>
class Norm {
  static_assert(check_module<T>());
  static_assert(
      (kIsOneOf<In, Arithmetic<T>> && kIsOneOf<Out, Arithmetic<T>>) ||
          (kIsOneOf<T, BFloat16> && kIsOneOf<In, float, BFloat16> && kIsOneOf<Out, BFloat16>),
      "addnorm: <T, In, Out> of a Norm must be one of <float, float, float>, <double, "
      "double, double>, <BFloat16, float, float>, <BFloat16, float, BFloat16>, <BFloat16, "
      "BFloat16, BFloat16>");

 public:
  using Value = Arithmetic<T>;

  ADDNORM_API Norm(const NormOptions& options, std::size_t features, Affine affine);

  /// s = add, y = norm(s). Layer and RMS norms do both in one pass. `sum` receives s; it may be
  /// absent if `add` has no branch. Batch norms use running statistics in evaluation.
  ADDNORM_API void forward(const ResidualAdd<In, Out>& add, MatrixView<In> sum, MatrixView<Out> y,
                           const Pass<T>& pass);

  /// The arguments of backward.
  struct Backward {
    MatrixView<const In> s = {};  ///< the values that forward normalized
    MatrixView<const Out> dy = {};
    MatrixView<const In> d_residual = {};  ///< absent: none
    Scale<Value> skip = {};
    MatrixView<In> dx = {};  ///< = skip ⊙ d_residual + dnorm(dy); may be dy or d_residual
  };
  /// Writes dx, and adds to the gradients of γ and β.
  ADDNORM_API void backward(const Backward& args, const Pass<T>& pass);

  /// Reports mean, deviation and x̂ of the last forward's values to pass.probe, for layer and RMS
  /// norms only.
  ADDNORM_API void observe(Site site, MatrixView<const In> s, const Pass<T>& pass) const;

  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<Value>& list);
  const NormOptions& options() const { return options_; }
  Parameter<Value>& gamma() { return gamma_; }
  Parameter<Value>& beta() { return beta_; }

 private:
  static constexpr bool kOneType = std::is_same_v<In, Value> && std::is_same_v<Out, Value>;

  StatisticsFrom statistics_from(const Pass<T>& pass) const;
  std::span<Value> workspace(const MatrixView<const In>& s, const Pass<T>& pass) const;
  std::span<const Value> gamma_of_features();

  NormOptions options_;
  Parameter<Value> gamma_;
  Parameter<Value> beta_;
  Parameter<Value> alpha_, shift_;   // for kDyT and kDerf
  Matrix<Value> gammas_, d_gammas_;  // for kScalarGamma: one for each feature
  std::vector<NormStatistics<Value>> statistics_;
  std::vector<Value> running_mean_;      // for kBatch
  std::vector<Value> running_variance_;  // for kBatch
};

}  // namespace addnorm
