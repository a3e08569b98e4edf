#include "addnorm/nn/initialize.h"

#include <algorithm>
#include <cmath>

#include "base/require.h"

namespace addnorm {

template <typename T>
void initialize(Linear<T>& linear, Initialization initialization, TorchGenerator& generator,
                double gain) {
  using Value = Arithmetic<T>;
  Matrix<Value>& weight = linear.weight().value;
  Matrix<Value>& bias = linear.bias().value;
  const auto in = static_cast<double>(weight.cols());
  const auto out = static_cast<double>(linear.out());
  switch (initialization) {
    case Initialization::kTorch: {
      const double bound = 1.0 / std::sqrt(in);
      generator.fill_uniform(weight.flat(), -gain * bound, gain * bound);
      if (!bias.empty()) generator.fill_uniform(bias.flat(), -bound, bound);
      break;
    }
    case Initialization::kXavier: {
      const double bound = gain * std::sqrt(6.0 / (in + out));
      generator.fill_uniform(weight.flat(), -bound, bound);
      break;
    }
    case Initialization::kGpt2:
      generator.fill_normal(weight.flat(), 0, gain * 0.02);
      break;
  }
  if (!bias.empty() && initialization != Initialization::kTorch) bias.fill(Value{0});
  round_parameter(linear.weight());
}

namespace {

/// Draws a gate's weight; its bias is unchanged.
template <typename T>
void initialize_gate(AddNorm<T>& add_norm, Initialization initialization,
                     TorchGenerator& generator) {
  if (!add_norm.update().gate()) return;
  Linear<T>& gate = *add_norm.update().gate();
  const Arithmetic<T> bias = gate.bias().value(0, 0);
  initialize(gate, initialization, generator);
  gate.bias().value.fill(bias);
}

/// Draws the hidden layer of the lanes' mixes, with variance 1/fan-in. The weights after it start
/// at 0.
template <typename T>
void initialize_lanes(std::optional<LaneSite<T>>& lanes, TorchGenerator& generator) {
  if (!lanes) return;
  for (LaneHead<Arithmetic<T>>& head : lanes->heads()) {
    Matrix<Arithmetic<T>>& hidden = head.hidden().value;
    if (hidden.empty()) continue;
    generator.fill_normal(hidden.flat(), 0, 1 / std::sqrt(static_cast<double>(hidden.cols())));
  }
}

}  // namespace

template <typename T>
void initialize(Block<T>& block, const BlockPlacement& placement, Depth depth,
                Initialization initialization, TorchGenerator& generator) {
  const double into_stream = initialization == Initialization::kGpt2
                                 ? 1.0 / std::sqrt(2.0 * static_cast<double>(depth.layers))
                                 : 1.0;
  MultiHeadAttention<T>& attention = block.attention();
  double gain = placement.attention.initial_gain.value(depth);
  for (auto* latent : {&attention.query_latent(), &attention.latent()}) {
    if (*latent) initialize(**latent, initialization, generator);
  }
  initialize(attention.query(), initialization, generator);
  initialize(attention.key(), initialization, generator);
  initialize(attention.value(), initialization, generator, gain);
  initialize(attention.output(), initialization, generator, gain * into_stream);

  FeedForward<T>& feed_forward = block.feed_forward();
  gain = placement.feed_forward.initial_gain.value(depth);
  if (feed_forward.router()) {
    initialize(feed_forward.router()->linear(), initialization, generator);
  }
  initialize(feed_forward.up(), initialization, generator, gain);
  if (feed_forward.gated()) initialize(feed_forward.gate(), initialization, generator, gain);
  initialize(feed_forward.down(), initialization, generator, gain * into_stream);

  for (AddNorm<T>* add_norm : {&block.attention_add_norm(), &block.feed_forward_add_norm()}) {
    initialize_gate(*add_norm, initialization, generator);
    initialize_lanes(add_norm->lanes(), generator);
  }
}

template <typename T>
void initialize(Decoder<T>& decoder, Initialization initialization, TorchGenerator& generator) {
  auto deviation = [&] {
    switch (initialization) {
      case Initialization::kTorch:
        return 1.0;
      case Initialization::kXavier:
        return std::sqrt(0.5);
      default:
        return 0.02;
    }
  }();
  generator.fill_normal(decoder.embedding().token().value.flat(), 0, deviation);
  generator.fill_normal(decoder.embedding().position().value.flat(), 0, deviation);
  round_parameter(decoder.embedding().token());

  const auto& placements = decoder.options().placements;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    initialize(decoder.stack().blocks()[i], placements[i], Depth{i + 1, placements.size()},
               initialization, generator);
  }
  initialize_lanes(decoder.stack().ends().exit(), generator);
  if (decoder.head()) initialize(*decoder.head(), initialization, generator);
}

namespace {

/// Measures Var[x_0] and the variance of every branch's output, in the order of the sublayers.
template <typename T>
class BranchVariance : public Probe<T> {
 public:
  void forward(const Site& site, MatrixView<const T> values) override {
    if (site.point == Point::kX && variances_.empty()) variances_.push_back(variance(values));
    if (site.point == Point::kBranch) variances_.push_back(variance(values));
  }
  void backward(const Site&, MatrixView<const T>) override {}

  const std::vector<double>& variances() const { return variances_; }

 private:
  static double variance(MatrixView<const T> values) {
    double sum = 0;
    double squares = 0;
    for (std::size_t r = 0; r < values.rows; ++r) {
      for (const T v : values.row(r)) {
        sum += v;
        squares += static_cast<double>(v) * v;
      }
    }
    const auto n = static_cast<double>(values.size());
    return squares / n - (sum / n) * (sum / n);
  }

  std::vector<double> variances_;
};

}  // namespace

template <typename T>
void initialize_admin(Decoder<T>& decoder, std::span<const std::int32_t> tokens,
                      std::size_t batch) {
  const bool is_learned = std::ranges::any_of(decoder.stack().blocks(), [](Block<T>& block) {
    return !block.attention_add_norm().skip().empty() ||
           !block.feed_forward_add_norm().skip().empty();
  });
  if (!is_learned) return;
  BranchVariance<Arithmetic<T>> probe;
  decoder.forward(tokens, {.batch = batch, .mode = Mode::kEvaluation, .probe = &probe});
  double total = 0;
  auto variance = probe.variances().begin();
  auto set = [&](AddNorm<T>& add_norm) {
    total += *variance++;
    if (!add_norm.skip().empty())
      add_norm.skip().value.fill(static_cast<Arithmetic<T>>(std::sqrt(total)));
  };
  for (std::size_t l = 0; l < decoder.stack().blocks().size(); ++l) {
    Block<T>& block = decoder.stack().blocks()[l];
    set(block.attention_add_norm());
    const bool parallel =
        decoder.options().placements[l].attention.sublayers == Sublayers::kParallel;
    if (!parallel) set(block.feed_forward_add_norm());
  }
}

#define ADDNORM_INSTANTIATE(T)                                                      \
  template void initialize(Linear<T>&, Initialization, TorchGenerator&, double);    \
  template void initialize(Block<T>&, const BlockPlacement&, Depth, Initialization, \
                           TorchGenerator&);                                        \
  template void initialize(Decoder<T>&, Initialization, TorchGenerator&);           \
  template void initialize_admin(Decoder<T>&, std::span<const std::int32_t>, std::size_t)
ADDNORM_INSTANTIATE(float);
ADDNORM_INSTANTIATE(double);
ADDNORM_INSTANTIATE(BFloat16);
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm
