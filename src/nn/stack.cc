#include "addnorm/nn/stack.h"

#include "base/time_account.h"
#include "nn/copy.h"
#include "nn/observed.h"

namespace addnorm {
template <typename T>
Stack<T>::Stack(const BlockOptions& options, const std::vector<BlockPlacement>& placements,
                FinalNorm final_norm)
    : ends_(placements, options.lanes, options.d_model, options.norm, options.affine) {
  blocks_.reserve(placements.size());
  BlockOptions of_block = options;
  of_block.lanes = ends_.lanes();
  for (const BlockPlacement& placement : placements) {
    blocks_.emplace_back(of_block, placement, Depth{blocks_.size() + 1, placements.size()});
    of_block.lanes = blocks_.back().lanes_after();
  }
  const bool as_placement = placements.back().feed_forward.final_norm == Slot::kNorm;
  if (final_norm == FinalNorm::kYes || (final_norm == FinalNorm::kAsPlacement && as_placement)) {
    final_norm_.emplace(options.norm, options.d_model, options.affine);
  }
}

template <typename T>
void Stack<T>::forward(MatrixView<const Value> x, MatrixView<T> y, const Pass<T>& pass) {
  ResidualStream<T> stream = ends_.enter(x, pass);
  for (Block<T>& block : blocks_) block.forward(stream, pass);
  const ScopedTimer timer(Cost::kAddNorm);
  if (ends_.has_lanes()) {
    stream = ResidualStream<T>(ends_.leave(stream, pass));
    if (pass.probe != nullptr) pass.probe->forward(end_site(), stream.value());
  }
  if (!final_norm_) {
    nn::copy<Value, T>(stream.value(), y);
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
    nn::copy<T, Value>(dy, dx);
  }
  if (ends_.has_lanes() && pass.probe != nullptr) pass.probe->backward(end_site(), dx);
  StreamGradient<T> gradient = ends_.leave_backward(dx, pass);
  const auto report_ready = [&](std::size_t layer) {
    if (pass.on_gradients != nullptr) (*pass.on_gradients)(layer);
  };
  report_ready(blocks_.size());
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    blocks_[i].backward(gradient, pass);
    report_ready(i);
  }
  ends_.enter_backward(gradient, dx, pass);
}

template <typename T>
void Stack<T>::list_parameters(const std::string& prefix, ParameterList<Value>& list) {
  ends_.list_entry_parameters(join_names(prefix, "entry_norm"), list);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].list_parameters(join_names(prefix, "layers." + std::to_string(i)), list);
  }
  ends_.list_exit_parameters(join_names(prefix, "exit"), list);
  if (final_norm_) final_norm_->list_parameters(join_names(prefix, "final_norm"), list);
}

template class Stack<float>;
template class Stack<double>;
template class Stack<BFloat16>;

}  // namespace addnorm
