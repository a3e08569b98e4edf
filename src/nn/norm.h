#pragma once

#include <string>
#include <vector>

#include "addnorm/norm.h"
#include "nn/parameter.h"
#include "nn/pass.h"

namespace addnorm {

/// Which of γ and β a norm has. RMSNorm is usually without β.
enum class Affine { kNone, kGamma, kGammaBeta };

/// A norm with its parameters and what its backward needs, on rows of features: every kind but
/// kInstance, which has nothing to average over there. Batch and group norms need contiguous rows.
template <typename T>
class Norm {
 public:
  Norm(const NormOptions& options, std::size_t features, Affine affine);

  /// s = add, y = norm(s). Layer and RMS norms do both in one pass. `sum` is where s goes; it may
  /// be absent where add has no branch. Batch norms use running statistics in evaluation.
  void forward(const ResidualAdd<T>& add, MatrixView<T> sum, MatrixView<T> y, const Pass<T>& pass);

  struct Backward {
    MatrixView<const T> s;  ///< what forward normalized
    MatrixView<const T> dy;
    MatrixView<const T> d_residual;  ///< absent: none
    Scale<T> skip;
    MatrixView<T> dx;  ///< = skip ⊙ d_residual + dnorm(dy); may be dy or d_residual
  };
  void backward(const Backward& args, const Pass<T>& pass);

  /// Tells pass.probe the mean, the deviation and x̂ of what forward has just normalized; of layer
  /// and RMS norms only.
  void tell(Site site, MatrixView<const T> s, const Pass<T>& pass) const;

  void list_parameters(const std::string& prefix, ParameterList<T>& list);
  const NormOptions& options() const { return options_; }
  Parameter<T>& gamma() { return gamma_; }
  Parameter<T>& beta() { return beta_; }

 private:
  bool of_rows() const;
  void forward_channels(MatrixView<const T> s, MatrixView<T> y, const Pass<T>& pass);
  void backward_channels(const Backward& args, const Pass<T>& pass);

  NormOptions options_;
  Parameter<T> gamma_;
  Parameter<T> beta_;
  std::vector<NormStatistics<T>> statistics_;
  std::vector<T> running_mean_;      // kBatch only
  std::vector<T> running_variance_;  // kBatch only
};

}  // namespace addnorm
