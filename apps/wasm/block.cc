// One Transformer block: its parameters, its forward and its backward. Options come as an array of
// float64, in the order that the comment here and web/packages/addnorm/src/block.ts both have.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "addnorm/nn/initialize.h"
#include "base/require.h"
#include "wasm/module.h"
#include "wasm/norm_options.h"

namespace addnorm {
namespace {

struct ModuleBlockOptions {
  BlockOptions block;
  Depth depth;
  Initialization initialization;
  std::uint64_t seed;
};

/// From [d_model, n_heads, d_ff, kind of feed-forward, layer, layers, initialization, seed] and the
/// norm's options behind them.
ModuleBlockOptions block_options(const double* values) {
  const auto size = [&](std::size_t i) { return static_cast<std::size_t>(values[i]); };
  return {.block = {.d_model = size(0),
                    .n_heads = size(1),
                    .d_ff = size(2),
                    .feed_forward = static_cast<FeedForwardKind>(values[3]),
                    .norm = norm_options(values + 8)},
          .depth = {.layer = size(4), .layers = size(5)},
          .initialization = static_cast<Initialization>(values[6]),
          .seed = static_cast<std::uint64_t>(values[7])};
}

/// Sizes have 32 bits here: their product must not wrap around.
void require_room(std::string_view what, std::uint64_t rows, std::uint64_t cols) {
  require(rows * cols <= std::numeric_limits<std::ptrdiff_t>::max() / sizeof(float),
          "{} of {} × {} values do not fit into memory", what, rows, cols);
}

/// A block, the input that its last forward read and its pass: what backward needs.
class ModuleBlock {
 public:
  ModuleBlock(const ModuleBlockOptions& o, const BlockPlacement& placement)
      : options_(checked(o.block)), block_(o.block, placement, o.depth) {
    TorchGenerator generator(o.seed);
    initialize(block_, placement, o.depth, o.initialization, generator);
    block_.list_parameters("", parameters_);
  }
  ModuleBlock(const ModuleBlock&) = delete;  // the parameters' list refers to the block
  ModuleBlock& operator=(const ModuleBlock&) = delete;

  const ParameterList<float>& parameters() const { return parameters_; }

  void forward(const Pass<float>& pass, const float* x, float* y) {
    require_room("activations", pass.rows(), std::max(options_.d_model, options_.d_ff));
    pass_ = pass;
    pass_.scratch = &scratch_;
    x_.resize(pass.rows(), options_.d_model);
    std::copy_n(x, x_.flat().size(), x_.data());
    ResidualStream<float> stream(x_);
    block_.forward(stream, pass_);
    const MatrixView<const float> value = stream.value();
    std::copy_n(value.data, value.size(), y);
  }

  /// dx from dy; the parameters' gradients are those of this call.
  void backward(const float* dy, float* dx) {
    std::copy_n(dy, x_.flat().size(), dx);
    zero_gradients(parameters_);
    block_.backward({dx, x_.rows(), x_.cols()}, pass_);
  }

 private:
  static const BlockOptions& checked(const BlockOptions& o) {
    require_room("weights", o.d_model, std::max(o.d_model, o.d_ff));
    return o;
  }

  BlockOptions options_;
  Block<float> block_;
  ParameterList<float> parameters_;
  Scratch<float> scratch_;
  Pass<float> pass_;
  Matrix<float> x_;
};

}  // namespace

/// A block with its first weights; `placement` as parse_placements() reads it for one layer.
ADDNORM_EXPORT(block_create)
ModuleBlock* block_create(const double* options, const char* placement, std::size_t bytes) {
  const std::string_view description(placement, bytes);
  return std::make_unique<ModuleBlock>(block_options(options),
                                       parse_placements(description, 1).front())
      .release();
}

/// "name\trows\tcols\n" for each parameter; valid until the next call.
ADDNORM_EXPORT(block_parameter_lines) const char* block_parameter_lines(ModuleBlock* block) {
  static std::string lines;
  lines.clear();
  for (const auto& [name, parameter] : block->parameters()) {
    lines += fmt::format("{}\t{}\t{}\n", name, parameter->value.rows(), parameter->value.cols());
  }
  return lines.c_str();
}
ADDNORM_EXPORT(block_value) float* block_value(ModuleBlock* block, std::size_t parameter) {
  return block->parameters()[parameter].parameter->value.data();
}
ADDNORM_EXPORT(block_gradient) float* block_gradient(ModuleBlock* block, std::size_t parameter) {
  return block->parameters()[parameter].parameter->gradient.data();
}

ADDNORM_EXPORT(block_forward)
void block_forward(ModuleBlock* block, std::size_t batch, std::size_t length,
                   AttentionMask::Order order, const float* x, float* y) {
  block->forward({.batch = batch, .length = length, .mask = {.order = order}}, x, y);
}
ADDNORM_EXPORT(block_backward)
void block_backward(ModuleBlock* block, const float* dy, float* dx) {
  block->backward(dy, dx);
}

}  // namespace addnorm
