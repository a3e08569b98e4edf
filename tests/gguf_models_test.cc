// GGUF files that llama.cpp's own converter made of the models of golden/models and
// golden/hub_models (golden/generate_gguf.py). The tests compare them with PyTorch's results for
// those models, and with the doctor's. Files with a flaw are written here.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "addnorm/error.h"
#include "doctor/diagnose.h"
#include "doctor/examine.h"
#include "doctor/open_model.h"
#include "io/file.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "support/compare.h"
#include "support/gguf_writer.h"
#include "support/random.h"

namespace addnorm {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::gguf_bytes;
using testing::GgufWriter;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::string kGolden = ADDNORM_SOURCE_DIR "/tests/golden/";

struct Converted {
  const char* name;
  const char* folder;  ///< folder of the original model
};
const Converted kModels[] = {
    {"llama3", "models/llama3"},
    {"gemma", "models/gemma"},
    {"gpt2", "models/gpt2"},
    {"bert_hub", "models/bert_hub"},
    {"phi3_longrope", "hub_models/phi3_longrope"},
    {"olmo3", "hub_models/olmo3"},
    {"glm4", "hub_models/glm4"},
    {"seed_oss", "hub_models/seed_oss"},
};

std::string gguf_of(const std::string& name) {
  return kGolden + "gguf/" + name + ".gguf";
}

/// Writes a file in the test's own folder.
std::string written(const std::string& bytes) {
  const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string file = (fs::path(::testing::TempDir()) / (name + ".gguf")).string();
  io::write_files({{file, bytes}});
  return file;
}

/// Removes the head, which llama.cpp's converter omits for BERT.
void leave_out_head(model::Recipe& recipe) {
  recipe.output = model::ModelOutput::kHidden;
}
bool is_bert(const Converted& model) {
  return std::string_view(model.name).starts_with("bert");
}

/// Returns the original of a converted model, without the parts that were not converted.
doctor::OpenedModel original(const Converted& model) {
  return doctor::open_model(kGolden + model.folder,
                            is_bert(model) ? leave_out_head : doctor::RecipeChange());
}

doctor::Subject examined(doctor::OpenedModel opened) {
  doctor::examine(opened.model, {}, opened.subject);
  return std::move(opened.subject);
}

class GgufModels : public ::testing::TestWithParam<Converted> {};

TEST_P(GgufModels, GiveWhatPyTorchGives) {
  const io::Safetensors golden =
      io::read_safetensors(kGolden + GetParam().folder + "/expected.safetensors");
  const io::StoredTensor& stored = golden.at("tokens");
  std::vector<std::int32_t> tokens;
  for (const double id : io::tensor_values<double>(stored)) tokens.push_back(std::int32_t(id));
  doctor::OpenedModel opened = doctor::open_model(gguf_of(GetParam().name));
  const MatrixView<const float> output = opened.model.forward(tokens, stored.shape[0]);
  auto expected = io::tensor_values<float>(golden.at("output"));
  doctor::OpenedModel before = original(GetParam());
  if (is_bert(GetParam())) {  // PyTorch's output includes the head
    const MatrixView<const float> hidden = before.model.forward(tokens, stored.shape[0]);
    expected.assign(hidden.data, hidden.data + hidden.size());
  }
  const double error = testing::relative_error(std::span(output.data, output.size()), expected);
  EXPECT_LT(error, 5e-6);  // float32 precision, as for the original files
  fmt::print("{}: {:.1e}\n", GetParam().name, error);
}

/// The converted files have the same γ by layer, gradients and other measurements, and the same
/// findings.
TEST_P(GgufModels, AreMeasuredAsTheFilesTheyWereMadeOf) {
  const doctor::Subject one = examined(doctor::open_model(gguf_of(GetParam().name)));
  const doctor::Subject other = examined(original(GetParam()));
  if (!is_bert(GetParam())) {
    EXPECT_NEAR(one.loss, other.loss, 1e-5);
  }
  EXPECT_EQ(one.profile.model.eps, other.profile.model.eps);
  EXPECT_EQ(one.profile.model.parameters, other.profile.model.parameters);
  ASSERT_EQ(one.profile.entries.size(), other.profile.entries.size());
  const bool is_gemma = std::string(GetParam().name) == "gemma";
  for (std::size_t i = 0; i < one.profile.entries.size(); ++i) {
    const probe::ProfileEntry &a = one.profile.entries[i], &b = other.profile.entries[i];
    ASSERT_EQ(a.site, b.site);
    if (is_gemma && a.site.point == Point::kGamma) {  // 1 + γ there, γ here
      EXPECT_NEAR(a.mean, 1 + b.mean, 1e-5);
      continue;
    }
    // Permuted rows of queries and keys are summed in another order.
    EXPECT_NEAR(a.rms, b.rms, 1e-4 * std::abs(b.rms)) << i;
    EXPECT_EQ(std::isnan(a.grad_rms), std::isnan(b.grad_rms));
    if (std::isnan(b.grad_rms)) continue;
    EXPECT_NEAR(a.grad_rms, b.grad_rms, 1e-3 * b.grad_rms) << i;
  }
  if (is_bert(GetParam())) return;  // the head is a finding in the original
  const std::vector<doctor::Finding> findings = doctor::diagnose(one);
  const std::vector<doctor::Finding> others = doctor::diagnose(other);
  ASSERT_EQ(findings.size(), others.size());
  for (std::size_t i = 0; i < findings.size(); ++i) {
    EXPECT_EQ(findings[i].rule, others[i].rule);
    EXPECT_EQ(findings[i].where, others[i].where);
    EXPECT_NE(findings[i].severity, doctor::Severity::kBroken) << findings[i].what;
  }
}

INSTANTIATE_TEST_SUITE_P(, GgufModels, ::testing::ValuesIn(kModels),
                         [](const auto& model) { return std::string(model.param.name); });

/// A converter that did not add Gemma's 1.
TEST(GgufFlaws, GainsThatAreStoredAsGemmasSafetensorsAreFound) {
  std::string bytes = io::read_file(gguf_of("gemma"));
  const io::Gguf file = io::read_gguf(gguf_of("gemma"));
  for (const io::StoredTensor& tensor : file.tensors) {
    if (tensor.name.find("norm") == std::string::npos) continue;
    std::vector<float> values = io::tensor_values<float>(tensor);
    const std::string_view old(reinterpret_cast<const char*>(tensor.bytes.data()),
                               tensor.bytes.size());
    for (float& value : values) value -= 1;
    std::memcpy(&bytes[bytes.find(old)], values.data(), tensor.bytes.size());
  }
  const std::vector<doctor::Finding> findings =
      doctor::diagnose(examined(doctor::open_model(written(bytes))));
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].rule, "gamma-form");
  EXPECT_THAT(findings[0].fix, HasSubstr("add 1"));
}

/// A Llama with one layer, for flaws.
struct SmallLlama {
  GgufWriter writer;
  TorchGenerator generator{1};
  float gamma = 1;

  SmallLlama() {
    writer.add("general.architecture", "llama");
    for (const auto& [key, value] :
         std::vector<std::pair<const char*, unsigned>>{{"block_count", 1},
                                                       {"embedding_length", 32},
                                                       {"feed_forward_length", 32},
                                                       {"context_length", 64},
                                                       {"attention.head_count", 2}}) {
      writer.add(std::string("llama.") + key, value);
    }
  }
  void add_matrix(const std::string& name, std::size_t rows) {
    writer.add_tensor(name, {32, rows},
                      testing::random_vector<float>(generator, 32 * rows, {0, 0.2}));
  }
  void add_norm(const std::string& name) {
    writer.add_tensor(name, {32}, std::vector<float>(32, gamma));
  }
  /// Adds all tensors except the queries'.
  void add_others() {
    add_matrix("token_embd.weight", 11);
    for (const char* name : {"attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
      add_matrix(fmt::format("blk.0.{}.weight", name), 32);
    }
    add_norm("blk.0.attn_norm.weight");
    add_norm("blk.0.ffn_norm.weight");
    add_norm("output_norm.weight");
  }
  void add_epsilon(float epsilon = 1e-5F) {
    writer.add("llama.attention.layer_norm_rms_epsilon", epsilon);
  }
};

/// Only norms are examined, and the doctor lists the unread tensors.
TEST(GgufFlaws, TypesThatAreNotReadAreNamedAndNormsChecked) {
  for (const float gamma : {0.9F, 1e-4F}) {
    SmallLlama llama;
    llama.gamma = gamma;
    llama.add_epsilon();
    llama.writer.add_tensor("blk.0.attn_q.weight", {32, 32}, 39, std::string(32 * 17, '\0'));
    llama.add_others();
    const std::string file = written(llama.writer.bytes());
    const doctor::Subject subject = examined(doctor::open_model(file));
    EXPECT_EQ(subject.measured_on, "its norms");
    EXPECT_EQ(subject.profile.entries.size(), 3U);
    const std::vector<doctor::Finding> findings = doctor::diagnose(subject);
    const auto note = std::ranges::find(findings, "type-not-read", &doctor::Finding::rule);
    ASSERT_NE(note, findings.end());
    EXPECT_EQ(note->severity, doctor::Severity::kNote);
    EXPECT_EQ(note->what, "a tensor is not read: blk.0.attn_q.weight (MXFP4)");
    const bool is_dead = std::ranges::any_of(
        findings, [](const doctor::Finding& finding) { return finding.rule == "dead-norm"; });
    EXPECT_EQ(is_dead, gamma < 0.5F);
  }
}

auto refuses(const std::string& part) {
  return ThrowsMessage<Error>(AllOf(HasSubstr(".gguf"), HasSubstr(part)));
}

TEST(GgufFlaws, MetadataThatMakesAnotherModelIsRefused) {
  const auto with = [](auto change) {
    return [=] {
      SmallLlama llama;
      change(llama);
      llama.add_matrix("blk.0.attn_q.weight", 32);
      llama.add_others();
      doctor::open_model(written(llama.writer.bytes()));
    };
  };
  EXPECT_NO_THROW(with([](SmallLlama& l) { l.add_epsilon(); })());
  EXPECT_THAT(with([](SmallLlama&) {}),
              refuses("llama.attention.layer_norm_rms_epsilon is missing"));
  EXPECT_THAT(with([](SmallLlama& l) {
                l.add_epsilon();
                l.writer.add("llama.expert_count", 8U);
              }),
              refuses("llama.expert_count is 8: it has experts, not supported here"));
  EXPECT_THAT(with([](SmallLlama& l) {
                l.add_epsilon();
                l.writer.add("llama.attention.head_count_kv", 0U);
              }),
              refuses("llama.attention.head_count_kv is 0, must be a whole number from 1"));
  EXPECT_THAT(with([](SmallLlama& l) {
                l.add_epsilon();
                l.writer.add("llama.attention.value_length", 8U);
                l.writer.add("llama.attention.key_length", 16U);
              }),
              refuses("llama.attention.value_length is 8, must be that of keys, 16"));
  EXPECT_THAT(with([](SmallLlama& l) {
                l.add_epsilon();
                l.writer.add_tensor("rope_freqs.weight", {3}, {1, 1, 1});
              }),
              refuses("'rope_freqs.weight' has 3 values, must have 8, one for each pair"));
  EXPECT_THAT(with([](SmallLlama& l) {
                l.add_epsilon();
                l.writer.add_tensor("blk.0.attn_q.bias", {32}, std::vector<float>(32));
              }),
              refuses("attention_bias is not supported"));
  EXPECT_THAT(with([](SmallLlama& l) {
                l.add_epsilon();
                l.writer.add("llama.rope.scaling.type", "spiral");
                l.writer.add("llama.rope.scaling.factor", 2.0F);
              }),
              refuses("type 'spiral' is not supported"));
}

TEST(GgufFlaws, OtherArchitecturesAndMissingTensorsAreNamed) {
  GgufWriter mamba;
  mamba.add("general.architecture", "mamba");
  EXPECT_THAT([&] { doctor::open_model(written(mamba.bytes())); },
              refuses("general.architecture is 'mamba'; expected one of llama qwen2"));
  EXPECT_THAT([&] { doctor::open_model(written(GgufWriter().bytes())); },
              refuses("there is no general.architecture"));
  SmallLlama llama;
  llama.add_epsilon();
  EXPECT_THAT([&] { doctor::open_model(written(llama.writer.bytes())); },
              refuses("there is no tensor 'token_embd.weight'"));
  llama.add_others();
  EXPECT_THAT([&] { doctor::open_model(written(llama.writer.bytes())); },
              refuses("there is no tensor 'blk.0.attn_q.weight'"));
}

}  // namespace
}  // namespace addnorm
