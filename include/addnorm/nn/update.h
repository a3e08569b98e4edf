#pragma once

#include <optional>
#include <string>

#include "addnorm/nn/linear.h"
#include "addnorm/nn/pass.h"
#include "addnorm/nn/placement.h"

namespace addnorm {

/// Computes the update u that a sublayer adds to the stream, from its output f and its input z: the
/// arrangement's Update, and stochastic depth of whole sequences (Huang et al. 2016).
template <typename T>
class UpdateStep {
  static_assert(check_module<T>());

 public:
  using Value = Arithmetic<T>;

  ADDNORM_API UpdateStep(const Placement& placement, const Place& place, std::size_t d_model);

  /// Whether u is f itself, so that there is no computation.
  bool is_branch(const Pass<T>& pass) const { return kind_ == Update::kBranch && !drops(pass); }

  /// Returns u, which stays valid until the next forward.
  ADDNORM_API MatrixView<const T> forward(MatrixView<const T> f, MatrixView<const Value> z,
                                          const Pass<T>& pass);
  /// Computes df, which may be du, and the gradient of z through u.
  ADDNORM_API void backward(MatrixView<const T> f, MatrixView<const Value> z,
                            MatrixView<const T> du, MatrixView<T> df, MatrixView<Value> dz,
                            const Pass<T>& pass);

  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<Value>& list);
  std::optional<Linear<T>>& gate() { return gate_; }  ///< present for kGated alone

 private:
  bool drops(const Pass<T>& pass) const { return pass.mode == Mode::kTraining && survival_ < 1; }
  Value kept(std::size_t row, const Pass<T>& pass) const;

  Update kind_;
  double survival_;
  std::uint64_t place_;
  std::optional<Linear<T>> gate_;
  Matrix<T> u_, logits_, d_logits_;
  Matrix<T> gate_input_, d_gate_input_;  // used if T is not z's type
};

}  // namespace addnorm
