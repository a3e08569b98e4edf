// Published architectures, read from small checkpoints in their own layout, against what
// PyTorch 1.13 computes from their definitions: golden/generate_models.py.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "io/file.h"
#include "io/safetensors.h"
#include "model/streamed_model.h"
#include "support/compare.h"

namespace addnorm {
namespace {

using testing::relative_error;

/// Of max |a − b| ÷ max |b| in one tensor.
constexpr double kTolerance = 1e-4;
/// A gradient that is 0 by algebra, as that of the keys' bias, is compared with a share of the
/// largest.
constexpr double kLeastShare = 1e-2;

std::string folder_of(const std::string& name) {
  return ADDNORM_SOURCE_DIR "/tests/golden/models/" + name;
}

model::StreamedModel load(const std::string& folder) {
  const std::string config = folder + "/config.json";
  model::Recipe recipe = model::parse_recipe(io::read_file(config), config);
  model::Weights weights(folder, recipe.family);
  return {std::move(recipe), std::move(weights)};
}

/// Gradients by the names of the tensors that the parameters stand in, laid out as they are.
class TensorGradients {
 public:
  explicit TensorGradients(const model::Weights& weights) : weights_(weights) {}

  void add(const model::StreamedModel::Gradient& g) {
    const model::ParameterSource source = weights_.find(std::string(g.name));
    std::vector<float>& all = gradients_[source.tensor->name];
    all.resize(source.tensor->count());
    const std::size_t rows = all.size() / source.parts / g.gradient.cols;
    for (std::size_t r = 0; r < g.gradient.rows; ++r) {
      for (std::size_t i = 0; i < g.gradient.cols; ++i) {
        const std::size_t row = source.part * rows + g.first_row + r;
        const std::size_t place =
            source.transposed ? i * rows * source.parts + row : row * g.gradient.cols + i;
        all[place] += g.gradient(r, i);
      }
    }
  }
  const std::map<std::string, std::vector<float>>& all() const { return gradients_; }

 private:
  const model::Weights& weights_;
  std::map<std::string, std::vector<float>> gradients_;
};

class Models : public ::testing::TestWithParam<const char*> {};

TEST_P(Models, GivesPyTorchsOutputAndGradients) {
  model::StreamedModel model = load(folder_of(GetParam()));
  const io::Safetensors expected =
      io::read_safetensors(folder_of(GetParam()) + "/expected.safetensors");
  const io::StoredTensor& stored_tokens = expected.at("tokens");
  std::vector<std::int32_t> tokens;
  for (const double id : io::tensor_values<double>(stored_tokens))
    tokens.push_back(std::int32_t(id));

  const MatrixView<const float> output = model.forward(tokens, stored_tokens.shape[0]);
  const double output_error = relative_error(std::span(output.data, output.size()),
                                             io::tensor_values<float>(expected.at("output")));
  EXPECT_LT(output_error, kTolerance);

  const std::vector<float> d_output = io::tensor_values<float>(expected.at("d_output"));
  TensorGradients gradients(model.weights());
  model.backward({d_output.data(), output.rows, output.cols},
                 [&](const model::StreamedModel::Gradient& gradient) { gradients.add(gradient); });
  std::map<std::string, std::vector<float>> wanted;
  double largest = 0;
  for (const io::StoredTensor& tensor : expected.tensors) {
    const std::string prefix = "gradient.";
    if (!tensor.name.starts_with(prefix)) continue;
    auto& values = wanted[tensor.name.substr(prefix.size())] = io::tensor_values<float>(tensor);
    largest = std::max(largest, testing::max_abs(values));
  }
  testing::LargestError worst;
  for (const auto& [name, values] : wanted) {
    const auto found = gradients.all().find(name);
    ASSERT_NE(found, gradients.all().end()) << name;
    const double error = relative_error(found->second, values, kLeastShare * largest);
    EXPECT_LT(error, kTolerance) << name;
    worst.add(error, name);
  }
  EXPECT_GT(wanted.size(), 12u);
  fmt::print("{}: output {:.1e}, worst of {} gradients {:.1e}\n", GetParam(), output_error,
             wanted.size(), double{worst});
}

INSTANTIATE_TEST_SUITE_P(, Models,
                         ::testing::Values("gpt2", "gpt2_saved", "bert", "bert_hub", "llama",
                                           "llama3", "qwen2", "qwen3", "gemma", "gemma2", "gemma3",
                                           "olmo2", "t5", "t5_v1_1"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace addnorm
