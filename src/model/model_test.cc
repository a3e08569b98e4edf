/// Tests of models in published formats. tests/models_test.cc compares their outputs with
/// PyTorch's.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "addnorm/error.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "model/nearest_family.h"
#include "model/streamed_model.h"
#include "support/random.h"

namespace addnorm::model {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;
namespace fs = std::filesystem;

auto throws(const std::string& words) {
  return ThrowsMessage<Error>(HasSubstr(words));
}

constexpr const char* kLlama = R"({"model_type": "llama", "vocab_size": 11, "hidden_size": 8,
  "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2,
  "intermediate_size": 6, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu"})";

/// Returns kLlama with one key changed, or without it if the value is "".
std::string changed(const std::string& key, const std::string& value) {
  auto config = nlohmann::ordered_json::parse(kLlama);
  config.erase(key);
  if (!value.empty()) config[key] = nlohmann::ordered_json::parse(value);
  return config.dump();
}

TEST(Recipe, SaysWhichKeyIsWrong) {
  const auto parse = [](const std::string& key, const std::string& value) {
    return [=] { parse_recipe(changed(key, value), "config.json"); };
  };
  EXPECT_THAT(parse("model_type", ""), throws("config.json: model_type is missing"));
  EXPECT_THAT(parse("model_type", "\"mamba\""), throws("is 'mamba'; expected one of gpt2 bert"));
  EXPECT_THAT(parse("model_type", "7"), throws("model_type is 7, must be a string"));
  EXPECT_THAT(parse("hidden_size", ""), throws("hidden_size is missing"));
  EXPECT_THAT(parse("hidden_size", "0"), throws("hidden_size is 0, must be a whole number"));
  EXPECT_THAT(parse("hidden_size", "-8"), throws("hidden_size is -8"));
  EXPECT_THAT(parse("hidden_size", "1e300"), throws("hidden_size is 1e+300"));
  EXPECT_THAT(parse("num_hidden_layers", "100000"),
              throws("num_hidden_layers is 100000, must be at most"));
  EXPECT_THAT(parse("rms_norm_eps", "\"x\""), throws("rms_norm_eps is \"x\", must be a number"));
  EXPECT_THAT(parse("hidden_act", "\"mish\""), throws("its activation 'mish' is not supported"));
  EXPECT_THAT(parse("attention_bias", "true"), throws("attention_bias is not supported"));
  EXPECT_THAT(parse("rope_scaling", R"({"rope_type": "axial"})"),
              throws("'axial' is not supported"));
  EXPECT_THAT(parse("rope_scaling", R"({"rope_type": "yarn"})"), throws("factor is missing"));
  EXPECT_THAT(parse("rope_scaling", R"({"type": "su", "short_factor": [1]})"),
              throws("short_factor has 1 entries for 2 pairs"));
  EXPECT_THAT(parse("partial_rotary_factor", "0.25"),
              throws("1 of 4 features of a head are rotated"));
  EXPECT_THAT(parse("partial_rotary_factor", "2"), throws("is 2, must be at most 1"));
  EXPECT_THAT(parse("rope_scaling", R"({"rope_type": "llama3", "factor": 8})"),
              throws("config.json: rope_scaling: low_freq_factor is missing"));
}

TEST(Recipe, NamesTheNearestFamily) {
  const auto nearest = [](const std::string& name, const std::string& json,
                          const std::vector<std::string>& tensors) {
    return nearest_family(name, json, tensors);
  };
  const std::vector<std::string> of_llama = {
      "model.embed_tokens.weight",
      "model.layers.0.input_layernorm.weight",
      "model.layers.0.post_attention_layernorm.weight",
      "model.layers.0.self_attn.q_proj.weight",
      "model.layers.0.self_attn.k_proj.weight",
      "model.layers.0.self_attn.v_proj.weight",
      "model.layers.0.self_attn.o_proj.weight",
      "model.layers.0.mlp.gate_proj.weight",
      "model.layers.0.mlp.up_proj.weight",
      "model.layers.0.mlp.down_proj.weight",
      "model.layers.0.mlp.new_proj.weight",
      "model.layers.1.input_layernorm.weight",
  };
  EXPECT_EQ(
      nearest("llamba", kLlama, of_llama),
      "the nearest is llama, which has the names of 9 of a layer's 10 tensors: to try it, set "
      "model_type to \"llama\" in a copy of the folder");
  auto with_norms = of_llama;
  with_norms.emplace_back("model.layers.0.self_attn.q_norm.weight");
  with_norms.emplace_back("model.layers.0.self_attn.k_norm.weight");
  EXPECT_THAT(nearest("llamba", kLlama, with_norms),
              HasSubstr("qwen3, which has the names of 11 of a layer's 12 tensors"));
  EXPECT_THAT(nearest("llamba", kLlama, {}), HasSubstr("llama, which can read this config"));
  EXPECT_THAT(nearest("gpt_neo", "{}", {}), HasSubstr("gpt_neox, by its name"));
}

/// No alternative family can be suggested here: no supported family has these parts.
TEST(Recipe, NamesPartsThatNoFamilyHas) {
  const auto said = [](const std::string& json, const std::vector<std::string>& tensors) {
    return nearest_family("llamoe", json, tensors);
  };
  EXPECT_THAT(said(changed("n_routed_experts", "256"), {}),
              AllOf(HasSubstr("it has experts, not supported here; the nearest is llama"),
                    Not(HasSubstr("to try it"))));
  EXPECT_THAT(said(changed("num_experts", "0"), {}), HasSubstr("to try it"));
  EXPECT_THAT(said(R"({"text_config": {"kv_lora_rank": 512, "num_local_experts": 8}})", {}),
              HasSubstr("it has experts and latent attention, not supported here; the nearest is"));
  EXPECT_THAT(said("{}", {"model.layers.0.linear_attn.in_proj_qkvz.weight",
                          "model.layers.3.mlp.experts.down_proj"}),
              HasSubstr("it has experts and linear attention, not supported here"));
}

/// SmolLM3's layers, some with and some without positions.
TEST(Recipe, LeavesLayersWithoutPositions) {
  const auto parse = [](const std::string& key, const std::string& value) {
    auto config = nlohmann::ordered_json::parse(changed(key, value));
    return parse_recipe_as("smollm3", config.dump(), "config.json");
  };
  EXPECT_FALSE(parse("no_rope_layer_interval", "2").attention[0].rope.empty());
  EXPECT_TRUE(parse("no_rope_layer_interval", "2").attention[1].rope.empty());
  EXPECT_TRUE(parse("no_rope_layers", "[0, 1]").attention[0].rope.empty());
  EXPECT_THAT([&] { parse("no_rope_layers", "[1]"); },
              throws("no_rope_layers has 1 entries for 2 layers"));
}

TEST(Recipe, IsWhatTheConfigurationSays) {
  const Recipe recipe = parse_recipe(kLlama, "config.json");
  EXPECT_EQ(recipe.layers(), 2U);
  EXPECT_EQ(recipe.block.norm.kind, NormKind::kRms);
  EXPECT_EQ(recipe.attention[1].n_kv_heads, 1U);
  EXPECT_EQ(recipe.attention[1].d_head, 4U);
  EXPECT_EQ(recipe.attention[1].rope.size(), 2U);
  EXPECT_DOUBLE_EQ(recipe.attention[1].rope[1], 0.01);
  EXPECT_EQ(recipe.output, ModelOutput::kLogits);
  EXPECT_EQ(recipe.placements[0].attention.name, "pre");
}

/// Newer files have one object for positions, with one entry for each kind of layer if there are
/// several.
TEST(Recipe, FindsRotaryPositionsWhereNewerFilesHaveThem) {
  for (const std::string name : {"llama3", "gemma3"}) {
    const std::string file = ADDNORM_SOURCE_DIR "/tests/golden/models/" + name + "/config.json";
    auto config = nlohmann::ordered_json::parse(io::read_file(file));
    const Recipe before = parse_recipe(config.dump(), file);
    auto all = config["rope_scaling"];
    all["rope_theta"] = config["rope_theta"];
    config["rope_parameters"] = all;
    if (name == "gemma3") {
      const nlohmann::ordered_json window{{"rope_type", "default"},
                                          {"rope_theta", config["rope_local_base_freq"]}};
      config["rope_parameters"] = {{"full_attention", all}, {"sliding_attention", window}};
    }
    for (const char* old : {"rope_theta", "rope_scaling", "rope_local_base_freq"})
      config.erase(old);
    const Recipe after = parse_recipe(config.dump(), file);
    for (std::size_t l = 0; l < before.layers(); ++l) {
      EXPECT_EQ(after.attention[l].rope, before.attention[l].rope) << name << ", layer " << l;
    }
  }
}

/// Files from before rope_parameters, the majority on the hub, have names that differ by family.
TEST(Recipe, FindsRotaryPositionsWhereOlderFilesHaveThem) {
  using Json = nlohmann::ordered_json;
  struct Case {
    const char* name;
    void (*rewrite)(Json& config, const Json& rope);
  };
  const Case cases[] = {
      {"gpt_neox",
       [](Json& config, const Json& rope) {
         config["rotary_emb_base"] = rope["rope_theta"];
         config["rotary_pct"] = rope["partial_rotary_factor"];
       }},
      {"phi3_longrope",
       [](Json& config, const Json& rope) {
         config["rope_theta"] = rope["rope_theta"];
         config["partial_rotary_factor"] = rope["partial_rotary_factor"];
         config["rope_scaling"] = {{"type", "su"},
                                   {"short_factor", rope["short_factor"]},
                                   {"long_factor", rope["long_factor"]}};
       }},
      {"mistral_yarn",
       [](Json& config, const Json& rope) {
         config["rope_theta"] = rope["rope_theta"];
         config["rope_scaling"] = rope;
         config["rope_scaling"]["type"] = "yarn";
         config["rope_scaling"].erase("rope_type");
       }},
      {"olmo3",
       [](Json& config, const Json& rope) {
         config["rope_theta"] = rope["full_attention"]["rope_theta"];
         config["rope_scaling"] = rope["full_attention"];
         config["rope_scaling"].erase("rope_theta");
       }},
      {"glm4",
       [](Json& config, const Json& rope) {
         config["rope_theta"] = rope["rope_theta"];
         config["partial_rotary_factor"] = rope["partial_rotary_factor"];
       }},
  };
  for (const auto& [name, rewrite] : cases) {
    const std::string file =
        fmt::format("{}/tests/golden/hub_models/{}/config.json", ADDNORM_SOURCE_DIR, name);
    Json config = Json::parse(io::read_file(file));
    const Recipe newer = parse_recipe(config.dump(), file);
    const Json rope = config["rope_parameters"];
    config.erase("rope_parameters");
    rewrite(config, rope);
    const Recipe older = parse_recipe(config.dump(), file);
    EXPECT_EQ(older.longest, newer.longest) << name;
    for (std::size_t l = 0; l < newer.layers(); ++l) {
      EXPECT_EQ(older.attention[l].rope, newer.attention[l].rope) << name << ", layer " << l;
      EXPECT_EQ(older.attention[l].rotary_gain, newer.attention[l].rotary_gain) << name;
    }
  }
}

/// Expected values computed by hand from the published formulas, with heads of 4 features and a
/// base of 10,000.
TEST(Recipe, ScalesRotaryPositions) {
  const auto form = [](const std::string& scaling) {
    auto config = nlohmann::ordered_json::parse(kLlama);
    config["max_position_embeddings"] = 64;
    config["rope_scaling"] = nlohmann::ordered_json::parse(scaling);
    return parse_recipe(config.dump(), "config.json");
  };
  const Recipe dynamic = form(R"({"type": "dynamic", "factor": 2})");
  EXPECT_THAT(dynamic.attention[0].rope, ElementsAre(1, 0.01));
  EXPECT_EQ(dynamic.longest, 64U);
  const Recipe longrope = form(R"({"type": "longrope", "short_factor": [2, 4],
                                   "long_factor": [5, 6], "original_max_position_embeddings": 16})");
  EXPECT_THAT(longrope.attention[0].rope, ElementsAre(0.5, 0.0025));
  EXPECT_EQ(longrope.longest, 16U);
  EXPECT_DOUBLE_EQ(longrope.attention[0].rotary_gain, std::sqrt(1.5));  // 1 + ln 4/ln 16
  const Recipe yarn = form(R"({"type": "yarn", "factor": 4, "truncate": false, "beta_fast": 4,
                               "beta_slow": 1, "original_max_position_embeddings": 1024})");
  EXPECT_NEAR(yarn.attention[0].rope[0], 1, 1e-12);
  EXPECT_NEAR(yarn.attention[0].rotary_gain, 1 + 0.1 * std::log(4), 1e-12);
  // Pair 1 makes 1024·0.01/2π = 1.63 turns, which is ln(4/1.63)/ln 4 of the way from 4 turns to 1.
  const double slowed = std::log(4 / (10.24 / (2 * std::numbers::pi))) / std::log(4);
  EXPECT_NEAR(yarn.attention[0].rope[1], 0.01 * (1 - slowed + slowed / 4), 1e-12);
}

/// The files of a random model with kLlama's recipe, which tests damage.
class ModelFilesTest : public ::testing::Test {
 protected:
  struct Tensor {
    io::Shape shape;
    std::vector<float> values;
  };

  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    TorchGenerator generator(1);
    const auto add = [&](const std::string& name, const io::Shape& shape) {
      std::size_t count = 1;
      for (const std::size_t n : shape) count *= n;
      tensors_[name] = {shape, testing::random_vector<float>(generator, count, {0, 0.1})};
    };
    add("model.embed_tokens.weight", {11, 8});
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
      add(layer + "input_layernorm.weight", {8});
      add(layer + "self_attn.q_proj.weight", {8, 8});
      add(layer + "self_attn.k_proj.weight", {4, 8});
      add(layer + "self_attn.v_proj.weight", {4, 8});
      add(layer + "self_attn.o_proj.weight", {8, 8});
      add(layer + "post_attention_layernorm.weight", {8});
      add(layer + "mlp.gate_proj.weight", {6, 8});
      add(layer + "mlp.up_proj.weight", {6, 8});
      add(layer + "mlp.down_proj.weight", {8, 6});
    }
    add("model.norm.weight", {8});
    add("lm_head.weight", {11, 8});
  }

  void write(const std::string& name, const std::map<std::string, Tensor>& tensors) const {
    std::vector<io::StoredTensor> stored;
    stored.reserve(tensors.size());
    for (const auto& [key, tensor] : tensors) {
      stored.push_back(io::stored_tensor(key, tensor.shape, std::span<const float>(tensor.values)));
    }
    io::write_safetensors((folder_ / name).string(), stored);
  }
  StreamedModel load() const {
    return {parse_recipe(kLlama, "config.json"), Weights(folder_.string(), {"llama"})};
  }

  /// Each test has its own folder, because tests run in parallel.
  fs::path folder_ = fs::path(::testing::TempDir()) /
                     ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::map<std::string, Tensor> tensors_;
};

TEST_F(ModelFilesTest, RunsForwardAndBackward) {
  write("model.safetensors", tensors_);
  StreamedModel model = load();
  const std::vector<std::int32_t> tokens{1, 2, 3, 10, 0, 7};
  const MatrixView<const float> logits = model.forward(tokens, 2);
  EXPECT_EQ(logits.rows, 6U);
  EXPECT_EQ(logits.cols, 11U);
  Matrix<float> gradient(6, 11);
  gradient.fill(0.1F);
  std::size_t count = 0;
  model.backward(gradient, [&](const StreamedModel::Gradient&) { ++count; });
  EXPECT_EQ(count, model.parameter_names().size());
  EXPECT_THAT(model.weights().besides(model.parameter_names()), ElementsAre());
}

/// Returns the output and all gradients, one after the other.
std::vector<float> evaluated(StreamedModel model) {
  const std::vector<std::int32_t> tokens{1, 2, 3, 10, 0, 7};
  const MatrixView<const float> logits = model.forward(tokens, 2);
  std::vector<float> values(logits.data, logits.data + logits.size());
  Matrix<float> gradient(6, 11);
  gradient.fill(0.1F);
  model.backward(gradient, [&](const StreamedModel::Gradient& g) {
    for (std::size_t r = 0; r < g.gradient.rows; ++r) {
      values.insert(values.end(), g.gradient.row(r).begin(), g.gradient.row(r).end());
    }
  });
  return values;
}

TEST_F(ModelFilesTest, EvaluatesWithoutDropoutAndWithEveryBranch) {
  write("model.safetensors", tensors_);
  const auto model = [&](double dropout, const char* placement) {
    Recipe recipe = parse_recipe(kLlama, "config.json");
    recipe.block.dropout = dropout;
    recipe.placements = parse_placements(placement, recipe.layers());
    return StreamedModel(recipe, Weights(folder_.string(), {"llama"}));
  };
  const std::vector<float> plain = evaluated(model(0, "pre"));
  EXPECT_EQ(evaluated(model(0.5, "pre")), plain);
  EXPECT_EQ(evaluated(model(0, "stochastic-depth")), plain);
}

TEST_F(ModelFilesTest, RefusesTokensOutsideTheVocabulary) {
  write("model.safetensors", tensors_);
  StreamedModel model = load();
  EXPECT_THAT(
      [&] {
        model.forward(std::vector<std::int32_t>{1, 11}, 1);
      },
      throws("token 11 is outside the vocabulary of 11"));
  EXPECT_THAT([&] { model.forward(std::vector<std::int32_t>{1, -1}, 1); }, throws("token -1"));
  EXPECT_THAT(
      [&] {
        model.forward(std::vector<std::int32_t>{1, 2, 3}, 2);
      },
      throws("3 tokens do not make a batch of 2"));
}

TEST_F(ModelFilesTest, SaysWhatIsMissingOrOfAnotherShape) {
  const auto spoilt = [&](const std::string& name, std::optional<io::Shape> shape) {
    auto tensors = tensors_;
    tensors.erase(name);
    if (shape) {
      std::size_t count = 1;
      for (const std::size_t n : *shape) count *= n;
      tensors[name] = {*shape, std::vector<float>(count)};
    }
    write("model.safetensors", tensors);
    return [&] { load(); };
  };
  EXPECT_THAT(spoilt("model.layers.1.mlp.up_proj.weight", {}),
              throws("there is no tensor 'model.layers.1.mlp.up_proj.weight'"));
  EXPECT_THAT(spoilt("model.norm.weight", {}), throws("there is no tensor 'model.norm.weight'"));
  EXPECT_THAT(spoilt("model.layers.1.mlp.up_proj.weight", io::Shape{8, 6}),
              throws("has the shape (8, 6), must have (6, 8)"));
  EXPECT_THAT(spoilt("model.layers.0.input_layernorm.weight", io::Shape{9}),
              throws("has the shape (9,), must have (8,)"));
  EXPECT_THAT(spoilt("model.embed_tokens.weight", io::Shape{}),
              throws("has the shape (), must have (11, 8)"));
}

/// LongRoPE's second list, for longer sequences, is not supported.
TEST_F(ModelFilesTest, RefusesSequencesForWhichItsPositionsAreNotKnown) {
  write("model.safetensors", tensors_);
  const std::string scaling = R"({"type": "longrope", "short_factor": [1, 2], "factor": 2,
                                  "original_max_position_embeddings": 4})";
  StreamedModel model(parse_recipe(changed("rope_scaling", scaling), "config.json"),
                      Weights(folder_.string(), {"llama"}));
  const std::vector<std::int32_t> tokens(10, 1);
  EXPECT_EQ(model.forward(std::span(tokens).first(8), 2).rows, 8U);
  EXPECT_THAT([&] { model.forward(tokens, 2); }, throws("5 tokens are longer than the 4 that"));
}

/// Two experts of gpt-oss with a gate and an up of one row each; expected values by hand from the
/// standard's table.
TEST_F(ModelFilesTest, ReadsMxfp4) {
  std::vector<std::uint8_t> blocks(4 * 2 * 16);  // rows × blocks × bytes
  const auto row = [&](std::size_t r) { return std::span(blocks).subspan(r * 32, 32); };
  row(0)[0] = 0x7F;   // −6, then 6
  row(0)[31] = 0x10;  // 0, then 0.5: the last of 64 values
  row(1)[16] = 0x5A;  // −1, then 3
  row(2)[15] = 0xB4;  // 2, then −1.5
  row(3)[0] = 0xC6;   // 4, then −2
  const std::vector<std::uint8_t> scales{127, 128, 127, 120, 126, 0, 255, 127};
  const std::string name = "model.layers.0.mlp.experts.gate_up_proj";
  const auto stored = [&](const char* end, io::Shape shape,
                          const std::vector<std::uint8_t>& bytes) {
    return io::StoredTensor{name + end, io::Dtype::kU8, shape, std::as_bytes(std::span(bytes))};
  };
  io::write_safetensors(folder_ / "model.safetensors", {stored("_blocks", {2, 2, 2, 16}, blocks),
                                                        stored("_scales", {2, 2, 2}, scales)});
  const Weights weights(folder_.string(), {.family = "gpt_oss", .experts = 2});
  EXPECT_EQ(weights.values(), 2 * 2 * 64U);
  EXPECT_THAT(weights.besides({}), ElementsAre(name + "_blocks"));
  const std::string gate = "layers.0.feed_forward.gate.weight";
  const std::string up = "layers.0.feed_forward.up.weight";
  Matrix<float> gates(2, 64), ups(2, 64);
  weights.check(gate, 2, 64);
  weights.read(gate, 0, gates);
  weights.read(up, 0, ups);
  EXPECT_THAT(gates.flat().first(3), ElementsAre(-6, 6, 0));
  EXPECT_THAT(gates.flat().subspan(62, 2), ElementsAre(0, 1));  // a scale of 2
  EXPECT_THAT(ups.flat().subspan(31, 3), ElementsAre(0, -0x1p-7F, 3 * 0x1p-7F));
  EXPECT_THAT(gates.flat().subspan(64 + 30, 3), ElementsAre(1, -0.75, 0));
  EXPECT_TRUE(std::isnan(ups(1, 0)) && std::isnan(ups(1, 31)));  // a scale of NaN
  EXPECT_EQ(ups(1, 32), 0);
  EXPECT_THAT([&] { weights.check(gate, 4, 64); },
              throws("has the shape (2, 2, 64), must have (2, 4, 64)"));
}

/// Expected values by hand from the table of E4M3 (Micikevicius et al. 2022).
TEST_F(ModelFilesTest, ReadsBlocksOfFloat8) {
  constexpr std::size_t kRows = 130, kCols = 129;
  std::vector<std::uint8_t> bytes(kRows * kCols, 0x38);  // 1
  const std::vector<std::uint8_t> first{0x7E, 0x01, 0xC0, 0x08, 0x7F};
  std::ranges::copy(first, bytes.begin());  // 448, 2⁻⁹, −2, 2⁻⁶, NaN
  const std::vector<float> scales{2, 3, 5, 7};
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  io::write_safetensors(
      folder_ / "model.safetensors",
      {{name, io::Dtype::kF8E4M3, {kRows, kCols}, std::as_bytes(std::span(bytes))},
       io::stored_tensor(name + "_scale_inv", {2, 2}, std::span<const float>(scales))});
  const Weights weights(folder_.string(), {"llama"});
  EXPECT_THAT(weights.besides({}), ElementsAre(name));
  Matrix<float> values(kRows, kCols);
  weights.read("layers.0.attention.query.weight", 0, values);
  EXPECT_THAT(values.flat().first(4), ElementsAre(896, 0x1p-8F, -4, 0x1p-5F));
  EXPECT_TRUE(std::isnan(values(0, 4)));
  EXPECT_EQ(values(127, 127), 2);
  EXPECT_EQ(values(0, 128), 3);
  EXPECT_EQ(values(128, 127), 5);
  EXPECT_EQ(values(129, 128), 7);
}

/// A recipe alone must not make the program allocate memory that the files do not justify.
TEST_F(ModelFilesTest, RefusesARecipeThatIsTooLargeForTheFiles) {
  write("model.safetensors", tensors_);
  Recipe recipe = parse_recipe(changed("intermediate_size", "900000000"), "config.json");
  EXPECT_THAT([&] { StreamedModel(recipe, Weights(folder_.string(), {"llama"})); },
              throws("too few for one layer"));
}

TEST_F(ModelFilesTest, ReadsShards) {
  auto second = tensors_;
  std::map<std::string, Tensor> first;
  first.insert(second.extract("lm_head.weight"));
  write("a.safetensors", first);
  write("b.safetensors", second);
  const auto index = [&](const std::string& text) {
    io::write_files({{(folder_ / "model.safetensors.index.json").string(), text}});
  };
  index(R"({"weight_map": {"lm_head.weight": "a.safetensors", "x": "b.safetensors"}})");
  EXPECT_EQ(load().parameter_names().size(), 21U);
  index(R"({"weight_map": {"x": "c.safetensors"}})");
  EXPECT_THAT([&] { load(); }, throws("c.safetensors: cannot be read"));
  index(R"({"weight_map": {"x": "../a.safetensors"}})");
  EXPECT_THAT([&] { load(); }, throws("must name files beside it"));
  index(R"({"weight_map": {"x": 3}})");
  EXPECT_THAT([&] { load(); }, throws("must hold names of files"));
  index("{}");
  EXPECT_THAT([&] { load(); }, throws("there is no object weight_map"));
  write("c.safetensors", first);
  index(R"({"weight_map": {"x": "a.safetensors", "y": "c.safetensors"}})");
  EXPECT_THAT([&] { load(); }, throws("'lm_head.weight' is in another file, too"));
}

TEST_F(ModelFilesTest, SaysWhatAFolderLacks) {
  EXPECT_THAT([&] { load(); }, throws("has neither model.safetensors nor model.safetensors.index"));
}

}  // namespace
}  // namespace addnorm::model
