// The doctor on broken and on sound networks. It does not know which is which: only this test reads
// golden/profiles/index.json.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "doctor/alternatives.h"
#include "doctor/diagnose.h"
#include "doctor/prove.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "report/doctor_bands.h"

namespace addnorm {
namespace {

const std::string kProfiles = ADDNORM_SOURCE_DIR "/tests/golden/profiles/";

/// The rule that must find each bug.
const std::map<std::string, std::string> kRuleOf = {
    {"norm_over_stream", "norm-over-stream"},
    {"residual_missing", "residual-missing"},
    {"residual_twice", "residual-twice"},
    {"residual_detached", "residual-detached"},
    {"branch_detached", "branch-detached"},
    {"depth_scale_lost", "depth-scale"},
    {"layer_norm_for_rms_norm", "norm-kind"},
    {"rms_norm_for_layer_norm", "norm-kind"},
    {"gamma_plain_for_one_plus", "gamma-form"},
    {"gamma_one_plus_for_plain", "gamma-form"},
    {"eps_outside", "epsilon-place"},
    {"eps_1e-12", "epsilon-size"},
    {"eps_1e-6", "epsilon-size"},
    {"eps_1e-5", "epsilon-size"},
    {"half_precision", "rounded-statistics"},
    {"final_norm_missing", "final-norm"},
    {"projections_not_scaled", "unscaled-projection"},
    {"logits_grow", "attention-logits-grow"},
};

bool is_defect(const doctor::Finding& finding) {
  return finding.severity != doctor::Severity::kNote;
}

doctor::Subject subject_of(const std::string& file) {
  return {.name = file, .profile = io::parse_profiles(io::read_file(kProfiles + file), file).at(0)};
}

std::string list(const std::vector<doctor::Finding>& findings) {
  std::string text;
  for (const doctor::Finding& f : findings) {
    text += fmt::format("    {} ({}): {}; expected {}\n", f.rule, f.where, f.what, f.because);
  }
  return text;
}

TEST(DoctorSuite, FindsPlantedBugsInTheirPlaceAndNothingInSoundNetworks) {
  const auto index = nlohmann::ordered_json::parse(io::read_file(kProfiles + "index.json"));
  std::size_t sound = 0, planted = 0;
  std::set<std::string> bugs;
  fmt::print("{:52} {:26} {:10} {}\n", "network", "planted", "where", "found");
  for (const auto& [file, truth] : index.items()) {
    const std::string bug = truth["bug"];
    std::vector<doctor::Finding> findings = doctor::diagnose(subject_of(file));
    std::erase_if(findings, [](const doctor::Finding& f) { return !is_defect(f); });
    const std::string where =
        truth["layer"].is_null() ? "all" : fmt::format("layer {}", truth["layer"].get<int>());
    fmt::print("{:52} {:26} {:10} {}\n", file, bug, bug == "sound" ? "" : where,
               findings.empty() ? std::string("nothing")
                                : fmt::format("{} × {}, {}", findings.size(), findings[0].rule,
                                              findings[0].where));
    if (bug == "sound") {
      ++sound;
      EXPECT_TRUE(findings.empty()) << file << "\n" << list(findings);
      continue;
    }
    ++planted;
    bugs.insert(bug);
    const std::string& rule = kRuleOf.at(bug);
    EXPECT_FALSE(findings.empty()) << file << ": nothing found, expected " << rule;
    for (const doctor::Finding& f : findings) {
      EXPECT_EQ(f.rule, rule) << file << "\n" << list(findings);
      if (!truth["layer"].is_null()) {
        EXPECT_EQ(f.site.value().layer, truth["layer"].get<std::size_t>()) << file;
      }
      if (truth["sublayer"].is_null()) continue;
      EXPECT_EQ(f.site.value().sublayer == SublayerKind::kAttention,
                truth["sublayer"] == "attention")
          << file << ": " << f.where;
    }
  }
  fmt::print("{} sound networks, {} with one of {} bugs\n", sound, planted, bugs.size());
  EXPECT_GE(sound, 30u);
  EXPECT_EQ(bugs.size(), kRuleOf.size());
}

// Bugs in a model's files, inserted into copies of golden/models.

namespace fs = std::filesystem;

/// A golden model in memory, which tests damage and write to another folder.
struct ModelFiles {
  nlohmann::ordered_json config;
  std::map<std::string, std::pair<io::Shape, std::vector<float>>> tensors;

  /// Reads a model from a folder below golden/.
  explicit ModelFiles(const std::string& name) {
    const std::string folder = ADDNORM_SOURCE_DIR "/tests/golden/" + name;
    config = nlohmann::ordered_json::parse(io::read_file(folder + "/config.json"));
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string file = entry.path().filename().string();
      if (!file.starts_with("model") || !file.ends_with(".safetensors")) continue;
      for (const io::StoredTensor& tensor : io::read_safetensors(entry.path().string()).tensors) {
        tensors[tensor.name] = {tensor.shape, io::tensor_values<float>(tensor)};
      }
    }
  }

  template <typename Change>
  void change(std::string_view part, const Change& change) {
    for (auto& [name, tensor] : tensors) {
      if (name.find(part) != std::string::npos) std::ranges::for_each(tensor.second, change);
    }
  }
  void set(std::string_view part, float value) {
    change(part, [&](float& v) { v = value; });
  }

  /// Writes the files to the test's own folder, and returns it.
  std::string written() const {
    const std::string folder = fs::path(::testing::TempDir()) /
                               ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder);
    fs::create_directories(folder);
    std::vector<io::StoredTensor> stored;
    for (const auto& [name, tensor] : tensors) {
      stored.push_back(
          io::stored_tensor(name, tensor.first, std::span<const float>(tensor.second)));
    }
    io::write_safetensors(folder + "/model.safetensors", stored);
    io::write_files({{folder + "/config.json", config.dump()}});
    return folder;
  }
};

/// Returns the doctor's findings in a folder of files, without notes.
std::vector<doctor::Finding> diagnosed(const std::string& folder) {
  auto [subject, model] = doctor::open_model(folder);
  doctor::examine(model, {}, subject);
  std::vector<doctor::Finding> findings = doctor::diagnose(subject);
  std::erase_if(findings, [](const doctor::Finding& f) { return !is_defect(f); });
  return findings;
}

struct FileBug {
  const char* model;
  const char* rule;
  int layer;  ///< −1: none
  const char* what;
  void (*plant)(ModelFiles& files);
};
const FileBug kFileBugs[] = {
    {"models/gpt2", "final-norm", -1, "without its final norm",
     [](ModelFiles& f) {
       f.tensors.erase("ln_f.weight");
       f.tensors.erase("ln_f.bias");
     }},
    {"models/llama", "final-norm", -1, "without its final norm",
     [](ModelFiles& f) { f.tensors.erase("model.norm.weight"); }},
    {"models/gemma2", "final-norm", -1, "without its final norm",
     [](ModelFiles& f) { f.tensors.erase("model.norm.weight"); }},
    {"models/t5", "final-norm", -1, "without its final norm",
     [](ModelFiles& f) { f.tensors.erase("encoder.final_layer_norm.weight"); }},
    {"models/gemma2", "unread-tensors", -1, "run as Gemma 1",
     [](ModelFiles& f) { f.config["model_type"] = "gemma"; }},
    {"models/qwen3", "unread-tensors", -1, "run as Llama",
     [](ModelFiles& f) { f.config["model_type"] = "llama"; }},
    {"models/qwen2", "unread-tensors", -1, "run as Llama",
     [](ModelFiles& f) { f.config["model_type"] = "llama"; }},
    {"models/llama", "epsilon-unusual", -1, "with BERT's ε",
     [](ModelFiles& f) { f.config["rms_norm_eps"] = 1e-12; }},
    {"models/bert", "epsilon-unusual", -1, "with GPT-2's ε",
     [](ModelFiles& f) { f.config["layer_norm_eps"] = 1e-5; }},
    {"models/gpt2", "epsilon-unusual", -1, "with BERT's ε",
     [](ModelFiles& f) { f.config["layer_norm_epsilon"] = 1e-12; }},
    {"models/gemma", "gamma-form", -1, "with γ stored as it is",
     [](ModelFiles& f) { f.change("norm", [](float& v) { v = 1 + 0.3F * v; }); }},
    {"models/llama", "gamma-form", -1, "with γ stored as γ − 1",
     [](ModelFiles& f) { f.change("norm", [](float& v) { v -= 1; }); }},
    {"models/olmo2", "dead-norm", 1, "with a γ of 0",
     [](ModelFiles& f) { f.set("layers.1.post_attention_layernorm", 0); }},
    {"models/gpt2", "not-finite", 1, "with a weight of NaN",
     [](ModelFiles& f) { f.tensors["h.1.attn.c_proj.weight"].second[3] = NAN; }},
    {"models/llama", "idle-sublayer", 1, "with a projection of 0",
     [](ModelFiles& f) { f.set("layers.1.mlp.down_proj", 0); }},
    {"models/qwen2", "repeated-layer", 1, "with a layer read twice",
     [](ModelFiles& f) {
       for (auto& [name, tensor] : f.tensors) {
         if (!name.starts_with("model.layers.1.")) continue;
         std::string first = name;
         tensor = f.tensors.at(first.replace(first.find('1'), 1, "0"));
       }
     }},
    {"models/llama3", "second-head", -1, "with a head that the config ties",
     [](ModelFiles& f) {
       f.tensors["lm_head.weight"] = f.tensors.at("model.embed_tokens.weight");
       f.change("lm_head", [](float& v) { v *= 1.5F; });
     }},
    {"models/t5", "idle-sublayer", 0, "with a projection of 0",
     [](ModelFiles& f) { f.set("block.0.layer.0.SelfAttention.o", 0); }},
    {"hub_models/gpt_neox", "final-norm", -1, "without its final norm",
     [](ModelFiles& f) {
       f.tensors.erase("gpt_neox.final_layer_norm.weight");
       f.tensors.erase("gpt_neox.final_layer_norm.bias");
     }},
    {"hub_models/gpt_neox", "dead-norm", 1, "with a γ of 0",
     [](ModelFiles& f) { f.set("layers.1.post_attention_layernorm.weight", 0); }},
    {"hub_models/gpt_neox", "idle-sublayer", 1, "with a projection of 0",
     [](ModelFiles& f) { f.set("layers.1.attention.dense", 0); }},
    {"hub_models/mistral", "gamma-form", -1, "with γ stored as γ − 1",
     [](ModelFiles& f) { f.change("norm", [](float& v) { v -= 1; }); }},
    {"hub_models/mistral", "epsilon-unusual", -1, "with BERT's ε",
     [](ModelFiles& f) { f.config["rms_norm_eps"] = 1e-12; }},
    {"hub_models/phi3", "idle-sublayer", 0, "with a projection of 0",
     [](ModelFiles& f) { f.set("layers.0.mlp.gate_up_proj", 0); }},
    {"hub_models/glm4", "unread-tensors", -1, "run as GLM",
     [](ModelFiles& f) { f.config["model_type"] = "glm"; }},
    {"hub_models/glm4", "dead-norm", 1, "with a γ of 0",
     [](ModelFiles& f) { f.set("layers.1.post_mlp_layernorm", 0); }},
    {"hub_models/olmo3", "dead-norm", 2, "with a γ of 0",
     [](ModelFiles& f) { f.set("layers.2.post_feedforward_layernorm", 0); }},
    {"hub_models/gpt_oss", "idle-sublayer", 1, "with experts that give 0",
     [](ModelFiles& f) { f.set("layers.1.mlp.experts.down_proj", 0); }},
    {"hub_models/deepseek_v3", "dead-norm", 1, "with a γ of 0",
     [](ModelFiles& f) { f.set("layers.1.self_attn.q_a_layernorm", 0); }},
    {"hub_models/deepseek_v3", "dead-norm", 2, "with a γ of 0 that is not run",
     [](ModelFiles& f) { f.set("layers.2.input_layernorm", 0); }},
    {"hub_models/qwen3_next", "dead-norm", 2, "with a γ of −1",
     [](ModelFiles& f) { f.set("layers.2.self_attn.q_norm", -1); }},
    {"hub_models/qwen3_next", "gamma-form", -1, "with γ stored as it is",
     [](ModelFiles& f) { f.change("norm", [](float& v) { v = 1 + 0.3F * v; }); }},
    {"hub_models/qwen3_next", "epsilon-unusual", -1, "with BERT's ε",
     [](ModelFiles& f) { f.config["rms_norm_eps"] = 1e-12; }},
    {"hub_models/gpt_oss", "epsilon-unusual", -1, "with BERT's ε",
     [](ModelFiles& f) { f.config["rms_norm_eps"] = 1e-12; }},
};

TEST(DoctorSuite, FindsBugsInFiles) {
  for (const FileBug& bug : kFileBugs) {
    ModelFiles files(bug.model);
    bug.plant(files);
    const std::vector<doctor::Finding> findings = diagnosed(files.written());
    fmt::print("{:20} {:26} {}\n", bug.model, bug.what,
               findings.empty() ? std::string("nothing")
                                : fmt::format("{} × {}, {}", findings.size(), findings[0].rule,
                                              findings[0].where));
    EXPECT_EQ(findings.size(), 1u) << bug.model << " " << bug.what;
    for (const doctor::Finding& f : findings) {
      EXPECT_EQ(f.rule, bug.rule) << bug.model << " " << bug.what << "\n" << list(findings);
      if (bug.layer >= 0) {
        EXPECT_EQ(f.site.value().layer, std::size_t(bug.layer)) << list(findings);
      }
    }
  }
}

/// Returns every folder of models.
std::vector<std::string> sound_files() {
  std::vector<std::string> names;
  for (const std::string group : {"models/", "hub_models/"}) {
    for (const auto& folder : fs::directory_iterator(ADDNORM_SOURCE_DIR "/tests/golden/" + group)) {
      names.push_back(group + folder.path().filename().string());
    }
  }
  std::ranges::sort(names);
  return names;
}

TEST(DoctorSuite, FindsNothingInSoundFiles) {
  const std::vector<std::string> names = sound_files();
  EXPECT_EQ(names.size(), 32u);
  for (const std::string& name : names) {
    const std::vector<doctor::Finding> findings =
        diagnosed(ADDNORM_SOURCE_DIR "/tests/golden/" + name);
    EXPECT_TRUE(findings.empty()) << name << "\n" << list(findings);
  }
}

/// A model with some unsupported layers: the supported ones are run, and the others' γ is checked.
TEST(DoctorSuite, SaysWhichLayersWereNotRun) {
  auto [subject, model] =
      doctor::open_model(ADDNORM_SOURCE_DIR "/tests/golden/hub_models/deepseek_v3");
  doctor::examine(model, {}, subject);
  const std::vector<doctor::Finding> findings = doctor::diagnose(subject);
  const auto note = std::ranges::find(findings, "layers-not-run", &doctor::Finding::rule);
  ASSERT_NE(note, findings.end());
  EXPECT_EQ(note->what, "layers 0 to 1 of 3 were run");
  EXPECT_EQ(note->because, "the others have routed experts, not supported here");
  EXPECT_EQ(doctor::layer_numbers(subject, doctor::last_step(subject.profile)).size(), 2U);
  for (const report::NormGains& norm : report::norm_gains(subject)) {
    EXPECT_EQ(norm.gain.size(), 3U) << norm.site.layer;
  }
  EXPECT_TRUE(std::ranges::any_of(subject.profile.entries, [](const auto& entry) {
    return entry.site.sublayer == SublayerKind::kFinalNorm && entry.site.point == Point::kGamma;
  }));
  EXPECT_FALSE(subject.was_run_whole());
}

TEST(DoctorSuite, ChecksNormsOfAModelThatCannotBeRun) {
  auto [subject, model] =
      doctor::open_model(ADDNORM_SOURCE_DIR "/tests/golden/hub_models/qwen3_next");
  doctor::examine(model, {}, subject);
  EXPECT_EQ(subject.profile.entries.size(),
            2 * 3 + 2 + 1U);  // two norms a layer, of q and k, and the final one
  EXPECT_FALSE(subject.was_run());
  const std::vector<doctor::Finding> findings = doctor::diagnose(subject);
  ASSERT_EQ(findings.size(), 1U) << list(findings);
  EXPECT_EQ(findings[0].what, "none of 3 layers was run");
  EXPECT_TRUE(doctor::layer_numbers(subject, subject.step).empty());
}

// Trained weights under a wrong recipe: every number is plausible, but the loss on a text is not.

/// Returns sequences like those of golden/trained's training: four tokens, repeated.
doctor::Tokens repeated_tokens() {
  doctor::Tokens tokens{.batch = 8};
  for (std::size_t i = 0; i < 8 * 16; ++i) {
    tokens.ids.push_back(static_cast<std::int32_t>(1 + (i / 16 * 5 + i % 4 * 7) % 39));
  }
  return tokens;
}

struct WrongRecipe {
  const char* model;
  const char* right;  ///< the proposal that the doctor must make
  void (*plant)(ModelFiles& files);
};
const WrongRecipe kWrongRecipes[] = {
    {"llama", "a RoPE base of 10,000", [](ModelFiles& f) { f.config["rope_theta"] = 3.0; }},
    {"llama", "1 + γ instead of γ",
     [](ModelFiles& f) { f.change("norm", [](float& v) { v -= 1; }); }},
    {"gemma", "γ instead of 1 + γ",
     [](ModelFiles& f) { f.change("norm", [](float& v) { v += 1; }); }},
};

TEST(DoctorSuite, FindsTheRecipeByWhichTrainedWeightsDoBest) {
  for (const WrongRecipe& wrong : kWrongRecipes) {
    ModelFiles files("trained/" + std::string(wrong.model));
    wrong.plant(files);
    const std::string folder = files.written();
    auto [subject, model] = doctor::open_model(folder);
    doctor::examine(model, repeated_tokens(), subject);
    doctor::try_alternatives(folder, model.recipe(), repeated_tokens(), subject);
    const std::vector<doctor::Finding> findings = doctor::diagnose(subject);
    const auto found = std::ranges::find(findings, "another-recipe", &doctor::Finding::rule);
    std::string tried = fmt::format("as it is: {:.3f}\n", subject.loss);
    for (const doctor::Alternative& a : subject.alternatives) {
      tried += fmt::format("{}: {:.3f}\n", a.change, a.loss);
    }
    ASSERT_NE(found, findings.end()) << wrong.model << ": " << wrong.right << "\n" << tried;
    EXPECT_EQ(found->remedies.at(0).change, wrong.right);
    for (const doctor::Proof& proof :
         doctor::prove_by_running(folder, subject, findings, repeated_tokens())) {
      if (proof.rule != "another-recipe") continue;
      fmt::print("{:8} {:24} loss {:.3f} → {:.3f}\n", wrong.model, proof.change, proof.before,
                 proof.after);
      EXPECT_TRUE(proof.is_mended);
      EXPECT_EQ(proof.before, found->measured);
      EXPECT_EQ(proof.after, found->expected);
    }
  }
}

TEST(DoctorSuite, LeavesTrainedWeightsTheirRecipe) {
  for (const char* name : {"gpt2", "llama", "gemma"}) {
    const std::string folder = ModelFiles("trained/" + std::string(name)).written();
    auto [subject, model] = doctor::open_model(folder);
    doctor::examine(model, repeated_tokens(), subject);
    doctor::try_alternatives(folder, model.recipe(), repeated_tokens(), subject);
    EXPECT_GE(subject.alternatives.size(), 4u);
    EXPECT_LT(subject.loss, 0.6 * subject.chance_loss) << name;
    for (const doctor::Finding& f : doctor::diagnose(subject))
      EXPECT_FALSE(is_defect(f)) << name << ": " << f.rule;
  }
}

/// The loss is over every token but a sequence's last one, which has no known next token. Other
/// programs define it in the same way.
TEST(DoctorSuite, HasTheLossOfTheNextToken) {
  const std::string folder = ADDNORM_SOURCE_DIR "/tests/golden/models/llama";
  const io::Safetensors golden = io::read_safetensors(folder + "/expected.safetensors");
  const auto ids = io::tensor_values<double>(golden.at("tokens"));
  const auto logits = io::tensor_values<float>(golden.at("output"));
  const std::size_t batch = 2, length = 12, vocabulary = logits.size() / ids.size();
  ASSERT_EQ(ids.size(), batch * length);
  double loss = 0;
  for (std::size_t s = 0; s < batch; ++s) {
    for (std::size_t t = 0; t + 1 < length; ++t) {
      const float* row = &logits[(s * length + t) * vocabulary];
      double sum = 0;
      for (std::size_t v = 0; v < vocabulary; ++v) sum += std::exp(double{row[v]});
      loss += std::log(sum) - row[static_cast<std::size_t>(ids[s * length + t + 1])];
    }
  }
  loss /= static_cast<double>(batch * (length - 1));
  auto [subject, model] = doctor::open_model(folder);
  const doctor::Tokens tokens{.ids = {ids.begin(), ids.end()}, .batch = batch};
  doctor::examine(model, tokens, subject);
  EXPECT_NEAR(subject.loss, loss, 1e-5);
  EXPECT_NEAR(doctor::loss_on(model, tokens), loss, 1e-5);
}

}  // namespace
}  // namespace addnorm
