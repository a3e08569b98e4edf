#include "addnorm/nn/stack.h"

#include "base/require.h"
#include "base/time_account.h"
#include "kernels/check.h"
#include "kernels/convert.h"
#include "nn/observed.h"

namespace addnorm {
namespace {

template <typename From, typename To>
void copy(MatrixView<const From> from, MatrixView<To> to) {
  if constexpr (std::is_same_v<From, To>) {
    if (from.data != to.data) residual_add<To>({.x = from}, to);
  } else {
    kernels::convert<From, To>(from, to);
  }
}

}  // namespace

template <typename T>
Stack<T>::Stack(const BlockOptions& options, const std::vector<BlockPlacement>& placements,
                FinalNorm final_norm) {
  require(!placements.empty(), "stack: there are no layers, at least 1 is needed");
  blocks_.reserve(placements.size());
  for (const BlockPlacement& placement : placements) {
    blocks_.emplace_back(options, placement, Depth{blocks_.size() + 1, placements.size()});
  }
  const bool as_placement = placements.back().feed_forward.final_norm == Slot::kNorm;
  if (final_norm == FinalNorm::kYes || (final_norm == FinalNorm::kAsPlacement && as_placement)) {
    final_norm_.emplace(options.norm, options.d_model, options.affine);
  }
}

template <typename T>
void Stack<T>::forward(MatrixView<const Value> x, MatrixView<T> y, const Pass<T>& pass) {
  ResidualStream<T> stream(x);
  for (Block<T>& block : blocks_) block.forward(stream, pass);
  const ScopedTimer timer(Cost::kAddNorm);
  if (!final_norm_) {
    copy(stream.value(), y);
    return;
  }
  stream.normalize(*final_norm_, y, pass);
  last_ = stream.value();
  if (pass.probe != nullptr) {
    const Site site{blocks_.size(), SublayerKind::kFinalNorm, Point::kOutput, NormSlot::kNone};
    pass.probe->forward(site, Observed<T>(y));
    final_norm_->observe({site.layer, site.sublayer, Point::kMean, NormSlot::kFinal}, last_, pass);
  }
}

template <typename T>
void Stack<T>::backward(MatrixView<const T> dy, MatrixView<Value> dx, const Pass<T>& pass) {
  const ScopedTimer timer(Cost::kAddNorm);
  if (final_norm_) {
    if (pass.probe != nullptr) {
      pass.probe->backward({blocks_.size(), SublayerKind::kFinalNorm, Point::kOutput},
                           Observed<T>(dy));
    }
    final_norm_->backward({.s = last_, .dy = dy, .dx = dx}, pass);
  } else {
    copy(dy, dx);
  }
  const auto report_ready = [&](std::size_t layer) {
    if (pass.on_gradients != nullptr) (*pass.on_gradients)(layer);
  };
  report_ready(blocks_.size());
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    blocks_[i].backward(dx, pass);
    report_ready(i);
  }
}

template <typename T>
void Stack<T>::list_parameters(const std::string& prefix, ParameterList<Value>& list) {
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].list_parameters(join_names(prefix, "layers." + std::to_string(i)), list);
  }
  if (final_norm_) final_norm_->list_parameters(join_names(prefix, "final_norm"), list);
}

template class Stack<float>;
template class Stack<double>;
template class Stack<BFloat16>;

}  // namespace addnorm
