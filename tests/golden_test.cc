// Compares forward and all gradients with PyTorch 1.13: golden/generate.py.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm/nn/stack.h"
#include "io/safetensors.h"
#include "support/compare.h"

namespace addnorm {
namespace {

/// The tolerance of max |a − b| ÷ max |b| in one tensor: about 80 ulps of float for both sides
/// together.
constexpr double kTolerance = 1e-5;

constexpr std::size_t kHeads = 4;
constexpr NormOptions kDocumentNorm{
    .epsilon = 1e-6, .epsilon_at = EpsilonAt::kDeviation, .variance = Variance::kUnbiased};

/// The tensors of one golden file, and the worst error of the compared tensors.
class Golden {
 public:
  explicit Golden(const std::string& name)
      : name_(name),
        file_(io::read_safetensors(ADDNORM_SOURCE_DIR "/tests/golden/data/" + name +
                                   ".safetensors")) {}
  ~Golden() { fmt::print("{}: worst error {:.1e}, of {}\n", name_, worst_error_, worst_); }

  const io::Shape& shape(const std::string& name) const { return file_.at(name).shape; }
  std::size_t d_model() const { return shape("output").back(); }

  /// Returns a matrix; all dimensions except the last are rows.
  Matrix<float> matrix(const std::string& name) const {
    const auto values = io::tensor_values<float>(file_.at(name));
    Matrix<float> matrix(values.size() / shape(name).back(), shape(name).back());
    std::copy(values.begin(), values.end(), matrix.data());
    return matrix;
  }
  /// Returns a mask; empty if the case has none.
  std::span<const std::uint8_t> mask(std::string_view name) const {
    for (const io::StoredTensor& tensor : file_.tensors) {
      if (tensor.name == name) {
        return {reinterpret_cast<const std::uint8_t*>(tensor.bytes.data()), tensor.bytes.size()};
      }
    }
    return {};
  }
  void load(const ParameterList<float>& parameters) const {
    for (const auto& [name, parameter] : parameters) parameter->value = matrix("value." + name);
    zero_gradients(parameters);
  }

  void compare(const std::string& name, std::span<const float> values) {
    const auto expected = io::tensor_values<float>(file_.at(name));
    SCOPED_TRACE(name_ + ": " + name);
    const double error = testing::max_error(values, expected) / largest(name);
    EXPECT_LE(error, kTolerance);
    if (error >= worst_error_) {
      worst_error_ = error;
      worst_ = name;
    }
  }
  void compare_gradients(const ParameterList<float>& parameters) {
    for (const auto& [name, parameter] : parameters) {
      compare("gradient." + name, parameter->gradient.flat());
    }
  }

 private:
  double largest(std::string name) const {
    // A key's bias adds a constant to all scores of a query, which has no effect. So its gradient
    // is rounding noise of the terms in its weight's gradient.
    if (name.ends_with("key.bias")) name.replace(name.size() - 4, 4, "weight");
    return testing::max_abs(io::tensor_values<double>(file_.at(name)));
  }

  std::string name_;
  io::Safetensors file_;
  double worst_error_ = 0;
  std::string worst_;
};

void check_norm(Norm<float>& norm, const std::string& file, Mode mode) {
  Golden golden(file);
  ParameterList<float> parameters;
  norm.list_parameters("norm", parameters);
  golden.load(parameters);
  const Matrix<float> x = golden.matrix("value.x");
  const Matrix<float> dy = golden.matrix("d_output");
  Matrix<float> y(x.rows(), x.cols());
  Matrix<float> dx(x.rows(), x.cols());
  Scratch<float> scratch;
  const Pass<float> pass{.length = x.rows(), .mode = mode, .scratch = &scratch};

  norm.forward({.x = x}, {}, y, pass);
  norm.backward({.s = x, .dy = dy, .dx = dx}, pass);

  golden.compare("output", y.flat());
  golden.compare("gradient.x", dx.flat());
  golden.compare_gradients(parameters);
}

TEST(Golden, NormsOfRowsEqualPyTorchs) {
  struct Case {
    const char* file;
    std::size_t features;
    NormOptions options = {};
    Affine affine = Affine::kGammaBeta;
  };
  for (const auto& [file, features, options, affine] :
       {Case{"layer_norm", 37}, Case{"document_norm", 37, kDocumentNorm},
        Case{"rms_norm", 37, {.kind = NormKind::kRms, .epsilon = 1e-6}, Affine::kGamma},
        Case{"ss_norm", 37, {.kind = NormKind::kRms, .epsilon = 1e-6}, Affine::kScalarGamma},
        Case{"dyt", 37, {.kind = NormKind::kDyT}}, Case{"derf", 37, {.kind = NormKind::kDerf}},
        Case{"group_norm_of_rows", 12, {.kind = NormKind::kGroup, .groups = 3}}}) {
    Norm<float> norm(options, features, affine);
    check_norm(norm, file, Mode::kTraining);
  }
}

TEST(Golden, BatchNormOfRowsEqualsPyTorchsInTrainingAndThenInEvaluation) {
  Norm<float> norm({.kind = NormKind::kBatch}, 7, Affine::kGammaBeta);
  check_norm(norm, "batch_norm_of_rows_training", Mode::kTraining);
  check_norm(norm, "batch_norm_of_rows_evaluation", Mode::kEvaluation);
}

/// A norm of an (N, C, S) tensor, with the arguments of its forward and backward.
struct ChannelNorm {
  Golden golden;
  NormOptions options;
  Matrix<float> x = golden.matrix("value.x");
  Matrix<float> dy = golden.matrix("d_output");
  Matrix<float> gamma = golden.matrix("value.norm.gamma");
  Matrix<float> beta = golden.matrix("value.norm.beta");
  Matrix<float> y{x.rows(), x.cols()};
  Matrix<float> dx{x.rows(), x.cols()};
  Matrix<float> d_gamma{1, gamma.cols()};
  Matrix<float> d_beta{1, beta.cols()};
  std::size_t positions = golden.shape("value.x")[2];
  std::vector<NormStatistics<float>> statistics = std::vector<NormStatistics<float>>(
      norm_sets(options, samples(), x.flat().size() / samples(), positions));
  std::vector<float> workspace = std::vector<float>(
      norm_workspace(options, samples(), x.flat().size() / samples(), positions));

  std::size_t samples() const { return golden.shape("value.x")[0]; }
  MatrixView<float> rows(Matrix<float>& matrix) const {
    return {matrix.data(), samples(), matrix.flat().size() / samples()};
  }
  AddNormForward<float> forward() {
    return {.add = {.x = rows(x)},
            .gamma = gamma.flat(),
            .beta = beta.flat(),
            .y = rows(y),
            .statistics = statistics,
            .positions = positions,
            .workspace = workspace};
  }
  AddNormBackward<float> backward() {
    return {.s = rows(x),
            .statistics = statistics,
            .gamma = gamma.flat(),
            .dy = rows(dy),
            .dx = rows(dx),
            .d_gamma = d_gamma.flat(),
            .d_beta = d_beta.flat(),
            .workspace = workspace,
            .positions = positions};
  }
  void run() {
    add_norm_forward(options, forward());
    add_norm_backward(options, backward());
  }
  void compare() {
    golden.compare("output", y.flat());
    golden.compare("gradient.x", dx.flat());
    golden.compare("gradient.norm.gamma", d_gamma.flat());
    golden.compare("gradient.norm.beta", d_beta.flat());
  }
};

TEST(Golden, InstanceNormEqualsPyTorchs) {
  ChannelNorm norm{Golden("instance_norm"), {.kind = NormKind::kInstance}};
  norm.run();
  norm.compare();
}

TEST(Golden, GroupNormEqualsPyTorchs) {
  ChannelNorm norm{Golden("group_norm"), {.kind = NormKind::kGroup, .groups = 3}};
  norm.run();
  norm.compare();
}

TEST(Golden, BatchNormEqualsPyTorchsInTraining) {
  ChannelNorm norm{Golden("batch_norm_training"), {.kind = NormKind::kBatch}};
  norm.run();
  norm.compare();
  std::vector<float> mean(norm.gamma.cols(), 0);
  std::vector<float> variance(norm.gamma.cols(), 1);
  const std::size_t count = norm.x.flat().size() / norm.gamma.cols();
  update_running_statistics<float>(norm.options, count, norm.statistics, {mean, variance});
  norm.golden.compare("running_mean", mean);
  norm.golden.compare("running_var", variance);
}

TEST(Golden, BatchNormEqualsPyTorchsInEvaluation) {
  ChannelNorm norm{Golden("batch_norm_evaluation"), {.kind = NormKind::kBatch}};
  Matrix<float> mean = norm.golden.matrix("running_mean");
  Matrix<float> variance = norm.golden.matrix("running_var");
  running_to_norm_statistics<float>(norm.options, {mean.flat(), variance.flat()}, norm.statistics);
  AddNormForward<float> forward = norm.forward();
  AddNormBackward<float> backward = norm.backward();
  forward.statistics_from = backward.statistics_from = StatisticsFrom::kGiven;
  add_norm_forward(norm.options, forward);
  add_norm_backward(norm.options, backward);
  norm.compare();
}

struct AttentionCase {
  const char* file;
  AttentionMask::Order order = AttentionMask::Order::kAny;
  std::array<std::string, 3> inputs = {"x", "x", "x"};
};

void check_attention(const AttentionCase& c) {
  Golden golden(c.file);
  const io::Shape& shape = golden.shape("output");
  const Matrix<float> dy = golden.matrix("d_output");
  Matrix<float> y(dy.rows(), dy.cols());
  std::map<std::string, Matrix<float>> in, d;
  for (const std::string& name : c.inputs) {
    in[name] = golden.matrix("value." + name);
    d[name].resize(in[name].rows(), in[name].cols());
  }
  MultiHeadAttention<float> attention(golden.d_model(), kHeads);
  ParameterList<float> parameters;
  attention.list_parameters("attention", parameters);
  golden.load(parameters);
  Scratch<float> scratch;
  const Pass<float> pass{.batch = shape[0],
                         .length = shape[1],
                         .mask = {.order = c.order,
                                  .key_padding = golden.mask("key_padding"),
                                  .blocked = golden.mask("blocked")},
                         .scratch = &scratch};

  const auto& [q, k, v] = c.inputs;
  attention.forward({in[q], in[k], in[v]}, y, pass);
  attention.backward({in[q], in[k], in[v]}, dy, {d[q], d[k], d[v]}, pass);

  golden.compare("output", y.flat());
  for (const auto& [name, gradient] : d) golden.compare("gradient." + name, gradient.flat());
  golden.compare_gradients(parameters);
}

TEST(Golden, AttentionEqualsPyTorchsAndTheDocuments) {
  check_attention({"attention"});
  check_attention({"attention_causal", AttentionMask::Order::kCausal});
  check_attention({"attention_document", AttentionMask::Order::kCausal});
  check_attention({"attention_key_padding"});
  check_attention({"attention_blocked"});
  check_attention({.file = "attention_cross", .inputs = {"query", "key", "value"}});
}

struct StackCase {
  const char* file;
  const char* placement;
  FeedForwardKind feed_forward;
  NormOptions norm = {};
  std::size_t layers = 1;
  FinalNorm final_norm = FinalNorm::kNo;
};

void check_stack(const StackCase& c) {
  Golden golden(c.file);
  const io::Shape& shape = golden.shape("output");
  Stack<float> stack({.d_model = golden.d_model(),
                      .n_heads = kHeads,
                      .d_ff = golden.shape("value.layers.0.feed_forward.up.weight")[0],
                      .feed_forward = c.feed_forward,
                      .norm = c.norm},
                     parse_placements(c.placement, c.layers), c.final_norm);
  ParameterList<float> parameters;
  stack.list_parameters("", parameters);
  golden.load(parameters);
  const Matrix<float> x = golden.matrix("value.x");
  Matrix<float> y(x.rows(), x.cols());
  Matrix<float> gradient = golden.matrix("d_output");
  Scratch<float> scratch;
  const Pass<float> pass{.batch = shape[0], .length = shape[1], .scratch = &scratch};

  stack.forward(x, y, pass);
  stack.backward(gradient, gradient, pass);

  golden.compare("output", y.flat());
  golden.compare("gradient.x", gradient.flat());
  golden.compare_gradients(parameters);
}

TEST(Golden, BlocksEqualPyTorchsAndTheDocuments) {
  check_stack({"post_relu", "post", FeedForwardKind::kRelu});
  check_stack({"post_gelu", "post", FeedForwardKind::kGelu});
  check_stack({"pre_relu", "pre", FeedForwardKind::kRelu});
  check_stack({"pre_gelu", "pre", FeedForwardKind::kGelu});
  check_stack({"document_block", "pre", FeedForwardKind::kRelu, kDocumentNorm});
  check_stack({.file = "pre_encoder",
               .placement = "pre",
               .feed_forward = FeedForwardKind::kGelu,
               .layers = 2,
               .final_norm = FinalNorm::kYes});
}

}  // namespace
}  // namespace addnorm
