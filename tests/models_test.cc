// Published architectures in small checkpoints with the original layout. The tests compare them
// with PyTorch 1.13's results for their definitions (golden/generate_models.py), and with the
// results of the library transformers (golden/generate_hub_models.py).

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

/// The tolerance of max |a − b| ÷ max |b| in one tensor.
constexpr double kTolerance = 1e-4;
/// A gradient that is 0 by algebra, such as that of the keys' bias, is compared with a share of the
/// largest one.
constexpr double kLeastShare = 1e-2;

/// `name` is a folder under tests/golden.
std::string folder_of(const std::string& name) {
  return ADDNORM_SOURCE_DIR "/tests/golden/" + name;
}

model::StreamedModel load(const std::string& folder) {
  const std::string config = folder + "/config.json";
  model::Recipe recipe = model::parse_recipe(io::read_file(config), config);
  model::Weights weights(folder, recipe.naming());
  return {std::move(recipe), std::move(weights)};
}

/// Gradients by the names and in the layout of the tensors that hold the parameters.
class TensorGradients {
 public:
  explicit TensorGradients(const model::Weights& weights) : weights_(weights) {}

  void add(const model::StreamedModel::Gradient& g) {
    const model::ParameterSource source = weights_.find(std::string(g.name));
    std::vector<float>& all = gradients_[source.tensor->name];
    all.resize(source.tensor->count());
    const model::TensorForm& form = source.form;
    // A vector is a column. Transposed matrices of experts follow one another.
    const std::size_t cols = source.is_vector() ? 1 : g.gradient.cols;
    const std::size_t whole = form.transposed ? source.tensor->shape.back() : all.size() / cols;
    const std::size_t rows = whole / form.part.all * form.part.own;
    for (std::size_t i = 0; i < g.gradient.size(); ++i) {
      const std::size_t own = g.first_row + i / cols, col = i % cols;
      const std::size_t row = form.part.row(own % rows, rows);
      all[form.transposed ? (own / rows * cols + col) * whole + row : row * cols + col] +=
          g.gradient.data[i];
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

INSTANTIATE_TEST_SUITE_P(
    , Models,
    ::testing::Values("models/gpt2", "models/gpt2_saved", "models/bert", "models/bert_hub",
                      "models/llama", "models/llama3", "models/qwen2", "models/qwen3",
                      "models/gemma", "models/gemma2", "models/gemma3", "models/olmo2", "models/t5",
                      "models/t5_v1_1", "hub_models/mistral", "hub_models/mistral_yarn",
                      "hub_models/phi3", "hub_models/phi3_longrope", "hub_models/gpt_neox",
                      "hub_models/gpt_neox_in_turn", "hub_models/olmo3", "hub_models/glm",
                      "hub_models/glm4", "hub_models/qwen2_window", "hub_models/smollm3",
                      "hub_models/seed_oss", "hub_models/ernie4_5", "hub_models/gpt_oss",
                      "hub_models/gpt_oss_mxfp4", "hub_models/deepseek_v3",
                      "hub_models/deepseek_v3_dense"),
    [](const auto& model) {
      const std::string path = model.param;
      return path.substr(path.find('/') + 1);
    });

}  // namespace
}  // namespace addnorm
