// Tests of the command `addnorm doctor`. doctor_suite.cc tests the rules' findings.

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "io/json.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "support/compare.h"
#include "support/program.h"

namespace addnorm {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Result;

const std::string kGolden = ADDNORM_SOURCE_DIR "/tests/golden/";
const std::string kModels = kGolden + "models/";
const std::string kProfiles = kGolden + "profiles/";

class DoctorCommandTest : public testing::ProgramTest {};

TEST_F(DoctorCommandTest, EndsWith0WhereAllIsSoundAnd1WhereItIsNot) {
  const Result sound = run("doctor " + kModels + "qwen3");
  EXPECT_EQ(sound.status, 0) << sound.err;
  EXPECT_THAT(sound.out, AllOf(HasSubstr("qwen3, pre-norm, RMSNorm"), HasSubstr("no finding")));
  const Result broken = run("doctor " + kProfiles + "gpt2_norm_over_stream_2_attention.jsonl");
  EXPECT_EQ(broken.status, 1);
  EXPECT_THAT(broken.out, AllOf(HasSubstr("✗ norm-over-stream"), HasSubstr("layer 2, attention"),
                                HasSubstr("s = 1.00·h +"), HasSubstr("expected  s = 1·x + f")));
  EXPECT_EQ(broken.err, "");
}

TEST_F(DoctorCommandTest, PrintsOneJsonDocument) {
  const auto sound = run_json("doctor " + kModels + "gpt2 --json");
  EXPECT_EQ(sound["status"], "sound");
  EXPECT_EQ(sound["layers"].size(), 2U);
  EXPECT_GT(sound["layers"][1]["stream_rms"], 0.1);
  const Result broken =
      run("doctor " + kProfiles + "bert_residual_missing_1_attention.jsonl --json");
  const io::Json document = io::Json::parse(broken.out);
  EXPECT_EQ(document["status"], "findings");
  EXPECT_EQ(document["findings"][0]["rule"], "residual-missing");
  EXPECT_EQ(document["findings"][0]["layer"], 1);
  EXPECT_EQ(document["findings"][0]["sublayer"], "attention");
}

TEST_F(DoctorCommandTest, WritesAModelsOutputForTokens) {
  const io::Safetensors golden = io::read_safetensors(kModels + "gemma2/expected.safetensors");
  const io::StoredTensor& tokens = golden.at("tokens");
  std::string bytes =
      io::to_npy(tokens.shape, io::tensor_values<double>(tokens));  // int64 is written by hand
  bytes.replace(bytes.find("<f8"), 3, "<i8");
  bytes.resize(bytes.size() - tokens.bytes.size());
  bytes.append(reinterpret_cast<const char*>(tokens.bytes.data()), tokens.bytes.size());
  write("in.npy", bytes);
  const Result result = run("doctor " + kModels + "gemma2 --tokens in.npy --logits out.npy");
  EXPECT_THAT(result.out, HasSubstr("worse-than-guessing"));  // its weights are random
  const io::NpyArray out = io::read_npy((folder_ / "out.npy").string());
  const auto expected = io::tensor_values<float>(golden.at("output"));
  EXPECT_EQ(out.shape, golden.at("output").shape);
  EXPECT_LT(testing::max_error(std::get<std::vector<float>>(out.values), expected), 1e-5);
}

TEST_F(DoctorCommandTest, ReadsGgufFiles) {
  const std::string file = kGolden + "gguf/llama3.gguf";
  const Result sound = run("doctor " + file + " --compare " + kModels + "llama3");
  EXPECT_EQ(sound.status, 0) << sound.err;
  std::string unwrapped = sound.out;  // line breaks depend on the folder's name
  std::ranges::replace(unwrapped, '\n', ' ');
  EXPECT_THAT(unwrapped, AllOf(HasSubstr("llama3.gguf: llama, pre-norm, RMSNorm, ε 1e-05"),
                               HasSubstr("No per-layer number differs")));
  write("short.gguf", io::read_file(file).substr(0, 20'000));
  const Result broken = run("doctor short.gguf");
  EXPECT_EQ(broken.status, 2);
  EXPECT_THAT(broken.err, HasSubstr("short.gguf: truncated: tensor '"));
  EXPECT_EQ(std::ranges::count(broken.err, '\n'), 1);
}

TEST_F(DoctorCommandTest, HoldsTwoProfilesSideBySide) {
  const std::string sound = kProfiles + "gpt2_sound_0_0.jsonl";
  const Result same = run("doctor " + sound + " --compare " + sound);
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("No per-layer number differs"));
  const Result port = run("doctor " + sound + " --compare " + kProfiles +
                          "gpt2_residual_twice_2_feed_forward.jsonl");
  EXPECT_THAT(port.out, AllOf(HasSubstr("new: residual-twice, layer 2, feed-forward"),
                              HasSubstr("They first differ at layer"), HasSubstr("as multiples")));
  EXPECT_EQ(port.status, 1) << "the other has findings";
}

TEST_F(DoctorCommandTest, HoldsTwoProfilesSideBySideForProgramsAndAsAPage) {
  const std::string sound = kProfiles + "gpt2_sound_0_0.jsonl";
  const std::string broken = kProfiles + "gpt2_residual_twice_2_feed_forward.jsonl";
  const Result result =
      run("doctor " + broken + " --compare " + sound + " --json --html page.html");
  EXPECT_EQ(result.status, 1) << result.err;
  const io::Json json = io::Json::parse(result.out);
  const io::Json& comparison = json["comparison"];
  EXPECT_EQ(json["status"], "findings");
  EXPECT_EQ(comparison["other"]["status"], "sound");
  EXPECT_EQ(comparison["gone"][0]["rule"], "residual-twice");
  EXPECT_TRUE(comparison["new"].empty());
  const io::Json& parting = comparison["parting"];
  const std::string number = parting["number"];
  const std::size_t layer = parting["layer"];
  EXPECT_EQ(parting["one"], json["layers"][layer][number]);
  EXPECT_EQ(parting["other"], comparison["other"]["layers"][layer][number]);
  EXPECT_DOUBLE_EQ(comparison["multiples"][layer][number],
                   parting["other"].get<double>() / parting["one"].get<double>());
  EXPECT_THAT(
      io::read_file((folder_ / "page.html").string()),
      AllOf(HasSubstr("Against gpt2_sound_0_0.jsonl"), HasSubstr("They first differ at layer"),
            HasSubstr("stream, gpt2_sound_0_0.jsonl"), HasSubstr("✗ gone")));
}

TEST_F(DoctorCommandTest, LooksAtARunAndWritesAPage) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "Add and norm, line " + std::to_string(i) + ". ";
  write("text", text);
  ASSERT_EQ(run("train --text text --out run --preset tiny --steps 12 --profile-every 4").status,
            0);
  const Result result = run("doctor run --html page.html");
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("addnorm, pre-norm"), HasSubstr("entropy")));
  EXPECT_THAT(io::read_file((folder_ / "page.html").string()),
              AllOf(HasSubstr("The residual stream"), Not(HasSubstr("<script"))));
}

TEST_F(DoctorCommandTest, LooksAtSettingsAndProvesAFix) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "Add and norm, line " + std::to_string(i) + ". ";
  write("text", text);
  write("settings.json",
        R"({"preset": "tiny", "text": "text", "placement": "plain", "layers": 16, "width": 32})");
  const Result result = run("doctor settings.json --prove --prove-steps 3 --html page.html");
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("settings.json: addnorm, placement plain"), HasSubstr("bytes of"),
                    HasSubstr("! gradient-vanishes"), HasSubstr("proof"), HasSubstr(", mended")));
  EXPECT_THAT(io::read_file((folder_ / "page.html").string()), HasSubstr("proof"));
  const Result json = run("doctor settings.json --prove --prove-steps 3 --json");
  const auto proof = nlohmann::ordered_json::parse(json.out)["proofs"][0];
  EXPECT_EQ(proof["rule"], "gradient-vanishes");
  EXPECT_LT(proof["before"], 1e-3);
  EXPECT_GT(proof["after"], 0.1);
  EXPECT_EQ(proof["mended"], true);
}

TEST_F(DoctorCommandTest, LooksAtPlacementsThatDifferByLayer) {
  write("text", std::string(2000, 'a') + std::string(2000, 'b'));
  write("settings.json",
        R"({"preset": "tiny", "text": "text", "placement": "post:1+sandwich/pre", "layers": 3})");
  const Result result = run("doctor settings.json --json");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(nlohmann::ordered_json::parse(result.out)["layers"].size(), 3U);
}

/// A finding of the whole network has no layer.
TEST_F(DoctorCommandTest, NamesNoPlaceWhereThereIsNone) {
  std::filesystem::copy(kModels + "llama", folder_ / "llama");
  std::string config = io::read_file((folder_ / "llama/config.json").string());
  config.replace(config.find("1e-05"), 5, "1e-12");
  write("llama/config.json", config);
  const auto finding =
      nlohmann::ordered_json::parse(run("doctor llama --json").out)["findings"].at(0);
  EXPECT_EQ(finding["rule"], "epsilon-unusual");
  EXPECT_TRUE(finding["layer"].is_null());
  EXPECT_TRUE(finding["sublayer"].is_null());
}

/// A run that ended before its first checkpoint leaves settings, losses and profiles.
TEST_F(DoctorCommandTest, LooksAtARunThatLeftNoCheckpoint) {
  write("text", std::string(4000, 'a'));
  const std::string train =
      "train --text text --preset tiny --placement none --init xavier --lr 100";
  ASSERT_EQ(run(train + " --layers 8 --clip 0 --warm-up 0 --out run").status, 1);
  const Result result = run("doctor run");
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("✗ training-stopped"), HasSubstr("is not finite")));
}

/// Writes a damaged copy of a golden model.
void spoil(const std::filesystem::path& folder, const std::string& name, const std::string& file,
           const std::function<void(std::string&)>& change) {
  std::filesystem::remove_all(folder);
  std::filesystem::copy(kModels + name, folder);
  const std::string path = (folder / file).string();
  std::string bytes = io::read_file(path);
  change(bytes);
  io::write_files({{path, bytes}});
}

TEST_F(DoctorCommandTest, RefusesSpoiltModels) {
  const std::string weights = "model.safetensors";
  const auto expect = [&](const std::string& name, const std::string& file, const char* message,
                          const std::function<void(std::string&)>& change) {
    spoil(folder_ / "spoilt", name, file, change);
    expect_error({"doctor", "spoilt"}, message);
  };
  const auto replace = [](const char* what, const char* by) {
    return [=](std::string& bytes) {
      ASSERT_NE(bytes.find(what), std::string::npos) << what;
      bytes.replace(bytes.find(what), std::strlen(what), by);
    };
  };
  expect("llama", weights, "data_offsets", [](std::string& b) { b.resize(b.size() / 2); });
  expect("llama", weights, "4 bytes", [](std::string& b) { b.resize(4); });
  expect("llama", weights, "header", [](std::string& b) { b[6] = '\x7f'; });
  expect("llama", weights, "header", [](std::string& b) { b[9] = '#'; });
  expect("llama", weights, "dtype", replace("\"F32\"", "\"F33\""));
  expect("llama", weights, "no tensor", replace("1.mlp.up_proj.weight", "1.mlp.up_proj.height"));
  expect("llama", weights, "shape", replace("\"shape\":[24]", "\"shape\":[12]"));
  expect("llama", "config.json", "shape", replace("\"hidden_size\": 24", "\"hidden_size\": 48"));
  expect("llama", "config.json", "vocab_size is missing",
         replace("\"vocab_size\"", "\"vocab_mass\""));
  expect("llama", "config.json", "model_type is 'mamba'", replace("\"llama\"", "\"mamba\""));
  expect("llama", "config.json", "the nearest is llama, which has the names of 9 of ",
         replace("\"llama\"", "\"mamba\""));
  expect("llama", "config.json", "line", [](std::string& b) { b.resize(b.size() / 2); });
  expect("llama", "config.json", "config.json: is not JSON: line",
         [](std::string& b) { b += "{}"; });
  const std::string bomb = "{\"x\":" + std::string(100'000, '[');
  expect("llama", "config.json", "config.json: column 37: nested more than 32 deep",
         [&](std::string& b) { b = bomb; });
  expect("llama3", "model.safetensors.index.json",
         "index.json: column 37: nested more than 32 deep", [&](std::string& b) { b = bomb; });
  expect("llama", weights, "model.safetensors: header: column 37: nested more than 32 deep",
         [&](std::string& b) {
           const std::uint64_t length = bomb.size();
           b = std::string(reinterpret_cast<const char*>(&length), sizeof length) + bomb;
         });
}

/// Unreadable settings and profiles are errors. An unreadable line of metrics is ignored.
TEST_F(DoctorCommandTest, RefusesOrPassesOverDeepJsonInARun) {
  write("text", std::string(4000, 'a'));
  ASSERT_EQ(run("train --text text --out run --preset tiny --steps 4 --profile-every 2").status, 0);
  const std::string bomb = "{\"x\":" + std::string(100'000, '[');
  const auto spoil_run = [&](const std::string& file, const std::string& bytes) {
    fs::remove_all(folder_ / "spoilt");
    fs::copy(folder_ / "run", folder_ / "spoilt");
    write("spoilt/" + file, bytes);
  };
  spoil_run("config.json", bomb);
  expect_error({"doctor", "spoilt"}, "config.json: column 37: nested more than 32 deep");
  const std::string profile = io::read_file((folder_ / "run/profile.jsonl").string());
  spoil_run("profile.jsonl", profile + bomb + "\n");
  expect_error({"doctor", "spoilt"}, ": column 37: nested more than 32 deep");
  const std::string metrics = io::read_file((folder_ / "run/metrics.jsonl").string());
  spoil_run("metrics.jsonl", bomb + "\n" + metrics);
  // the name is 3 longer
  EXPECT_EQ(run("doctor spoilt").out.size(), run("doctor run").out.size() + 3);
}

TEST_F(DoctorCommandTest, RefusesBadInput) {
  write("empty.jsonl", "");
  write("header.jsonl", R"({"addnorm_profile":1,"model":{}})"s + "\n");
  write("nan.jsonl", R"({"addnorm_profile":1,"model":{}})"s + "\n{\"point\":\"x\",\"rms\":NaN}\n");
  write("huge.jsonl", R"({"addnorm_profile":1,"model":{"n_layers":18446744073709551615}})"s + "\n");
  write("text.txt", "text");
  expect_error({"doctor"}, "TARGET is required");
  expect_error({"doctor", "nowhere"}, "there is no such file");
  expect_error({"doctor", "text.txt"}, "expected a run, settings of a run, a folder");
  expect_error({"doctor", "."}, "no config.json");
  expect_error({"doctor", "empty.jsonl"}, "holds no profile");
  expect_error({"doctor", "header.jsonl"}, "has only its first line");
  expect_error({"doctor", "nan.jsonl"},
               "nan.jsonl: line 2: is not JSON: column 20: unexpected NaN");
  expect_error({"doctor", "huge.jsonl"}, "n_layers is 18446744073709551615");
  expect_error({"doctor", kModels + "gpt2", "--logits", "out.npy"}, "--logits: requires --tokens");
  expect_error({"doctor", kModels + "gpt2", "--tokens", "text.txt"}, "is not a .npy file");
  expect_error({"doctor", kModels + "gpt2", "--prove", "--prove-steps", "0"}, "--prove-steps");
  expect_error({"doctor", kProfiles + "gpt2_sound_0_0.jsonl", "--prove"}, "no fix can be tried");
  write("settings.json", R"({"layers": -1})");
  expect_error({"doctor", "settings.json"}, "\"layers\" is -1");
  write("settings.json", R"({"layers": 1000000000})");
  expect_error({"doctor", "settings.json"}, "layers is 1000000000");
  expect_error({"doctor", kModels + "gpt2", "--prove"}, "--prove: requires --tokens");
  write("placeless.jsonl", R"({"addnorm_profile":1})"s + "\n{\"layer\":0,\"rms\":1}\n");
  expect_error({"doctor", "placeless.jsonl"}, "line 2: sublayer is missing");
  write("deep.jsonl", std::string(100'000, '[') + "\n");
  expect_error({"doctor", "deep.jsonl"}, "deep.jsonl: line 1: column 33: nested more than 32 deep");
}

// The second file is a pipe: the first is already mapped when it is opened for reading.
TEST_F(DoctorCommandTest, SaysThatAFileHasBecomeShorter) {
  const fs::path model = folder_ / "model";
  fs::copy(kModels + "llama3", model);
  const fs::path second = model / "model-00002-of-00002.safetensors";
  const std::string bytes = io::read_file(second);
  fs::remove(second);
  ASSERT_EQ(::mkfifo(second.c_str(), 0600), 0);
  std::thread writer([&] {
    std::ofstream pipe(second, std::ios::binary);
    fs::resize_file(model / "model-00001-of-00002.safetensors", 0);
    pipe << bytes;
  });
  const Result result = run("doctor model");
  writer.join();
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(
      result.err,
      "addnorm: model/model-00001-of-00002.safetensors: has become shorter while it was read\n");
}

/// Missing values are unknown, not findings.
TEST_F(DoctorCommandTest, TakesAProfileThatSaysLittle) {
  write("little.jsonl", R"({"addnorm_profile":1,"model":{}})"s + "\n" +
                            R"({"layer":0,"sublayer":"attention","point":"sum","rms":1.5})" + "\n");
  const Result result = run("doctor little.jsonl");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("no finding"));
}

}  // namespace
}  // namespace addnorm
