// One Transformer block: its parameters, its forward and its backward.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>

#include "base/require.h"
#include "c/call.h"
#include "wasm/module.h"
#include "wasm/options.h"

namespace addnorm {
namespace {

BlockOptions block_options(const ModuleBlockOptions& o) {
  return {.d_model = o.d_model,
          .n_heads = o.heads,
          .d_ff = o.d_ff,
          .feed_forward = o.feed_forward,
          .norm = c::norm_options("block", o.norm)};
}

/// Sizes have 32 bits here: the check keeps their product from overflowing.
void require_room(std::string_view what, std::uint64_t rows, std::uint64_t cols) {
  require(rows * cols <= std::numeric_limits<std::ptrdiff_t>::max() / sizeof(float),
          "{} of {} × {} values do not fit into memory", what, rows, cols);
}

/// A block, with the input and the pass of its last forward for backward.
class ModuleBlock {
 public:
  ModuleBlock(const ModuleBlockOptions& o, const BlockPlacement& placement)
      : options_(checked(block_options(o))), block_(options_, placement, {o.layer, o.layers}) {
    TorchGenerator generator(o.seed);
    initialize(block_, placement, {o.layer, o.layers}, o.initialization, generator);
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

  /// Computes dx from dy; the parameters' gradients are those of this call alone.
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

/// Creates a block with its initial weights; `placement` is a description for parse_placements()
/// with one layer.
ADDNORM_EXPORT(block_create)
ModuleBlock* block_create(const ModuleBlockOptions* options, const char* placement,
                          std::size_t bytes) {
  const std::string_view description(placement, bytes);
  const BlockPlacement block = parse_placements(description, 1).front();
  require(!block.attention.lanes.several() && !block.feed_forward.lanes.several(),
          "placement \"{}\" has several lanes, a block of its own has one", description);
  return std::make_unique<ModuleBlock>(*options, block).release();
}

/// Returns {"name": [rows, columns], ...} for the parameters; valid until the next call.
ADDNORM_EXPORT(block_shapes) const char* block_shapes(ModuleBlock* block) {
  static std::string json;
  const auto shape = [](const NamedParameter<float>& p) {
    const Matrix<float>& value = p.parameter->value;
    return fmt::format(R"("{}":[{},{}])", p.name, value.rows(), value.cols());
  };
  json = fmt::format("{{{}}}", fmt::join(block->parameters() | std::views::transform(shape), ","));
  return json.c_str();
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
  block->forward(
      {.batch = batch, .length = length, .mode = Mode::kEvaluation, .mask = {.order = order}}, x,
      y);
}
ADDNORM_EXPORT(block_backward)
void block_backward(ModuleBlock* block, const float* dy, float* dx) {
  block->backward(dy, dx);
}

}  // namespace addnorm
