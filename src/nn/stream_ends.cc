#include "addnorm/nn/stream_ends.h"

#include "base/require.h"
#include "nn/lane_mix.h"
#include "nn/slot.h"

namespace addnorm {

template <typename T>
StreamEnds<T>::StreamEnds(const std::vector<BlockPlacement>& placements, std::size_t lanes,
                          std::size_t d_model, const NormOptions& norm, Affine affine) {
  require(!placements.empty(), "stack: there are no layers, at least 1 is needed");
  form_ = placements.front().attention.lanes;
  lanes_ = lanes_before(placements, lanes, 0);
  nn::emplace_norm(placements.front().attention.entry, entry_, norm, d_model, affine);

  const LaneForm& last = placements.back().feed_forward.lanes;
  if (!last.several()) return;
  const Place behind{.depth = {placements.size() + 1, placements.size()},
                     .lanes = lanes_before(placements, lanes, placements.size())};
  exit_.emplace(exit_form(last), behind, d_model, norm, affine);
}

/// Returns X_0 = u ⊗ x, whose first lane goes through the entry norm; without lanes and norm, x
/// itself. A stream that starts without lanes may grow later.
template <typename T>
ResidualStream<T> StreamEnds<T>::enter(MatrixView<const Value> x, const Pass<T>& pass) {
  x_ = x;
  if (!form_.several()) {
    if (!entry_) return ResidualStream<T>(x);
    entered_.resize(x.rows, x.cols);
    entry_->forward({.x = x}, {}, entered_.view(), pass);
    return ResidualStream<T>(entered_);
  }
  LaneList<const Value> lanes;
  const std::size_t width = splits() ? x.cols / lanes_ : x.cols;
  entered_.resize(lanes_ * x.rows, width);
  const LaneList<Value> entered = nn::lanes_of(entered_.view(), lanes_);
  for (std::size_t i = 0; i < lanes_; ++i) {
    const auto factor = static_cast<Value>(form_.enter(i));
    const MatrixView<const Value> part = splits() ? x.block(0, i * width, x.rows, width) : x;
    if (i == 0 && entry_) {
      entry_->forward({.x = part}, {}, entered[0], pass);
      lanes.push_back(entered[0]);
    } else if (factor == 1) {
      lanes.push_back(part);
    } else {
      residual_add<Value>({.x = part, .skip = {.constant = factor}}, entered[i]);
      lanes.push_back(entered[i]);
    }
  }
  return ResidualStream<T>(std::move(lanes));
}

template <typename T>
MatrixView<const Arithmetic<T>> StreamEnds<T>::leave(ResidualStream<T>& stream,
                                                     const Pass<T>& pass) {
  return (has_lanes() ? exit_->read(stream, pass) : stream).value();
}

template <typename T>
StreamGradient<T> StreamEnds<T>::leave_backward(MatrixView<Value> dz, const Pass<T>& pass) {
  if (!has_lanes()) return StreamGradient<T>(dz);
  const std::size_t width = splits() ? dz.cols / lanes_ : dz.cols;
  d_lanes_.resize(exit_->lanes() * dz.rows, width);
  d_lanes_.fill(0);
  StreamGradient<T> gradient(nn::lanes_of(d_lanes_.view(), exit_->lanes()));
  exit_->read_backward(gradient, dz, pass);
  return gradient;
}

/// dx = Σ u_i·dX_0,i; the first lane's gradient goes through the entry norm.
template <typename T>
void StreamEnds<T>::enter_backward(const StreamGradient<T>& gradient, MatrixView<Value> dx,
                                   const Pass<T>& pass) {
  const MatrixView<Value> first = gradient.first();
  if (entry_) {
    const MatrixView<const Value> x = x_.block(0, 0, first.rows, first.cols);
    entry_->backward({.s = x, .dy = first, .dx = first}, pass);
  }
  if (!has_lanes()) return;
  for (std::size_t i = 0; i < lanes_; ++i) {
    const MatrixView<const Value> lane = gradient.lanes[i];
    const auto factor = i == 0 && entry_ ? Value{1} : static_cast<Value>(form_.enter(i));
    const MatrixView<Value> to = splits() ? dx.block(0, i * lane.cols, lane.rows, lane.cols) : dx;
    if (i == 0 || splits()) {
      residual_add<Value>({.x = lane, .skip = {.constant = factor}}, to);
    } else {
      residual_add<Value>({.x = to, .branch = lane, .gain = {.constant = factor}}, to);
    }
  }
}

template <typename T>
void StreamEnds<T>::list_entry_parameters(const std::string& prefix, ParameterList<Value>& list) {
  if (entry_) entry_->list_parameters(prefix, list);
}
template <typename T>
void StreamEnds<T>::list_exit_parameters(const std::string& prefix, ParameterList<Value>& list) {
  if (exit_) exit_->list_parameters(prefix, list);
}

template class StreamEnds<float>;
template class StreamEnds<double>;
template class StreamEnds<BFloat16>;

}  // namespace addnorm
