// Tests of the program as a child process: its output, its exit status, and the files that it
// leaves.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <pty.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "addnorm/nn/placement.h"
#include "io/file.h"
#include "io/npy.h"
#include "report/text.h"
#include "support/compare.h"
#include "support/program.h"

namespace addnorm {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using ::testing::AllOf;
using testing::become_program;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::max_error;
using ::testing::Not;
using testing::read_to_end;
using testing::relative_error;
using testing::Result;
using testing::split;
using ::testing::StartsWith;
using testing::to_double;
using testing::wait_for;
using Json = nlohmann::ordered_json;
using Vector = std::vector<double>;

class CliTest : public testing::ProgramTest {
 protected:
  using ProgramTest::write;
  template <typename T = float>
  void write(const std::string& name, const io::Shape& shape, const Vector& values) const {
    write(name, io::to_npy(shape, std::vector<T>(values.begin(), values.end())));
  }
  io::NpyArray read(const std::string& name) const {
    return io::read_npy((folder_ / name).string());
  }
  template <typename T>
  Vector values(const std::string& name) const {
    return to_double(std::get<std::vector<T>>(read(name).values));
  }
};

Vector numbers(const Json& array) {
  return array.get<Vector>();
}

TEST_F(CliTest, HelpAndVersionAreOnStandardOutput) {
  for (const char* words :
       {"--help", "trace --help", "norm -h", "reproduce --help", "study --help", "lab --help",
        "bench --help", "train --help", "generate --help", "serve --help"}) {
    const Result result = run(words);
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.out.find("'addnorm COMMAND --help'") != std::string::npos, words == "--help"s)
        << words;
    EXPECT_THAT(result.out, HasSubstr("Usage: addnorm"));
    EXPECT_THAT(result.err, IsEmpty());
  }
  EXPECT_THAT(run("--version").out, ::testing::MatchesRegex("addnorm [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_F(CliTest, LimitsWhatAPipeMayGive) {
  const auto error_of = [&](const std::string& limit) {
    const Result result = run("--pipe-limit " + limit + " norm --input /dev/zero --output y.npy");
    EXPECT_EQ(result.status, 2);
    return result.err;
  };
  EXPECT_THAT(error_of("3MB"), HasSubstr("/dev/zero: gives more than 3145728 bytes"));
  EXPECT_THAT(error_of("-1"), HasSubstr("--pipe-limit: is -1; expected 0 or more"));
  EXPECT_THAT(error_of("much"), HasSubstr("--pipe-limit"));
}

TEST_F(CliTest, TraceIsThePromisedJson) {
  const Json trace = run_json("trace 1 2 3 4 --json");
  std::vector<std::string> keys;
  for (const auto& item : trace.items()) keys.push_back(item.key());
  EXPECT_THAT(keys, ElementsAre("x", "branch", "sum", "mean", "variance", "deviation", "normalized",
                                "output"));
  EXPECT_EQ(trace["x"], Json({1, 2, 3, 4}));
  EXPECT_TRUE(trace["branch"].is_null());
  EXPECT_EQ(trace["sum"], Json({1, 2, 3, 4}));
  EXPECT_EQ(trace["mean"], 2.5);
  EXPECT_EQ(trace["variance"], 1.25);
  const double deviation = std::sqrt(1.25 + 1e-5);
  EXPECT_NEAR(trace["deviation"], deviation, 1e-15);
  const Vector normalized{-1.5 / deviation, -0.5 / deviation, 0.5 / deviation, 1.5 / deviation};
  EXPECT_LT(max_error(numbers(trace["normalized"]), normalized), 1e-15);
  EXPECT_EQ(trace["output"], trace["normalized"]);
}

TEST_F(CliTest, TraceKnowsItsFlags) {
  const double root_5_3 = std::sqrt(5.0 / 3);
  const struct {
    const char* flags;
    double mean, deviation;
    Vector output;
  } cases[] = {
      // Document 000's convention, then document 004's.
      {"1 2 3 4 --eps-at deviation --variance unbiased --eps 1e-6",
       2.5,
       root_5_3 + 1e-6,
       {-1.5 / (root_5_3 + 1e-6), -0.5 / (root_5_3 + 1e-6), 0.5 / (root_5_3 + 1e-6),
        1.5 / (root_5_3 + 1e-6)}},
      {"0 1 --branch 1 4 --eps 1e-8",
       3,
       std::sqrt(4 + 1e-8),
       {-2 / std::sqrt(4 + 1e-8), 2 / std::sqrt(4 + 1e-8)}},
      {"3 5 --eps 0 --gamma 2 --beta -.5", 4, 1, {-2.5, 1.5}},
      {"3 5 --eps 0 --gamma 2 -3 --beta 1,0", 4, 1, {-1, -3}},
      {"3 4 --eps 0 --norm rms", 0, std::sqrt(12.5), {3 / std::sqrt(12.5), 4 / std::sqrt(12.5)}},
      {"3 5 --eps 0 --branch 1 1 --placement pre", 4, 1, {4, 6}},
      {"3 5 --eps 0 --branch 1 1 --placement none", 5, 1, {4, 6}},
      {"--eps 0 --branch 1 1 -- 3 5", 5, 1, {-1, 1}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.flags);
    const Json trace = run_json("trace --json "s + c.flags);
    EXPECT_NEAR(trace["mean"], c.mean, 1e-15);
    EXPECT_NEAR(trace["deviation"], c.deviation, 1e-15);
    EXPECT_LT(max_error(numbers(trace["output"]), c.output), 1e-15);
  }
}

TEST_F(CliTest, TraceReadsEveryNumber) {
  EXPECT_EQ(run_json("trace -1 2.5 -3e-2 -.5 +4 .25 5. -1e-3 --json")["x"],
            Json({-1.0, 2.5, -0.03, -0.5, 4.0, 0.25, 5.0, -0.001}));
  EXPECT_EQ(run_json("trace 1,2,-3, -.5,-4 --json")["x"], Json({1.0, 2.0, -3.0, -0.5, -4.0}));
  const Json trace = run_json("trace 1 -inf nan -nan inf -Infinity --branch -1 -.5 0 0 0 0 --json");
  EXPECT_EQ(trace["x"], Json({1.0, nullptr, nullptr, nullptr, nullptr, nullptr}));
  EXPECT_TRUE(trace["mean"].is_null());
}

TEST_F(CliTest, TraceFillsTheNumbersIntoTheFormulas) {
  const Result post = run("trace 1 2 3 4");
  for (const char* part :
       {"μ  = (1 + 2 + 3 + 4) / 4 = 2.5\n",
        "σ² = ((1 − 2.5)² + (2 − 2.5)² + (3 − 2.5)² + (4 − 2.5)²) / 4 = 1.25\n",
        "σ  = √(1.25 + 1e-5) = 1.118\n", "(1 − 2.5) / 1.118 =  -1.342", "y = γ·x̂ + β"}) {
    EXPECT_THAT(post.out, HasSubstr(part));
  }
  const Result pre =
      run("trace 1 -2 --branch 5 0.5 --placement pre --norm rms --eps-at deviation --eps 1");
  for (const char* part : {"σ² = ((1)² + (-2)²) / 2 = 2.5\n", "σ  = √2.5 + 1 = 2.581\n",
                           "-2 / 2.581 =  -0.7749", "s = x + F(h)", "-2 + 0.5 =  -1.500"}) {
    EXPECT_THAT(pre.out, HasSubstr(part));
  }
  std::string many = "trace";
  for (int i = 1; i <= 512; ++i) many += ' ' + std::to_string(i);
  EXPECT_THAT(run(many).out,
              AllOf(HasSubstr(" + … + 512) / 512 = 256.5\n"), HasSubstr("… and 496 more\n")));
}

TEST_F(CliTest, TraceShowsLanes) {
  const std::string words = "trace 1 2 / 3 -1 --placement hyper --branch 0.5 -1 --layer 2";
  const Json json = run_json(words + " --json");
  EXPECT_EQ(json["lanes"], Json({{1.0, 2.0}, {3.0, -1.0}}));
  EXPECT_EQ(json["z"], Json({1.0, 2.0}));  // site 2 reads lane 0
  EXPECT_EQ(json["output"], Json({{1.5, 1.0}, {3.5, -2.0}}));
  const std::string text = run(words).out;
  for (const char* part :
       {"hyper  attention in layer 2 of 12; hyper-connections\n", "\nlane 1  3  -1\n",
        "z = lane 0\n", "lane 1  0  1  │  3  -1\n", "lane 1  1  │  0.5  -1\n",
        "Add  X′ = A·X + b ⊗ F(h)\n", "lane 1  3.5  -2\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(run("trace 1 2 --placement mhc").out,
              AllOf(HasSubstr("0.7311·lane 0 + 0.2689·lane 1"), HasSubstr("--branch sets"),
                    Not(HasSubstr("Branch"))));
  EXPECT_EQ(run_json("trace 1 2 --placement mhc --lanes 7 --json")["lanes"].size(), 7u);
}

TEST_F(CliTest, TraceOfAMixtureIsThatOfItsPart) {
  EXPECT_EQ(run("trace 1 2 3 --placement mix-ln --layer 12 --branch 1 0 1").out,
            run("trace 1 2 3 --placement pre --branch 1 0 1").out);
  EXPECT_EQ(run("trace 1 2 3 --placement post/sandwich --sublayer feed_forward").out,
            run("trace 1 2 3 --placement sandwich --sublayer feed_forward").out);
}

TEST_F(CliTest, TraceOfEveryPlacementFitsItsTerminal) {
  for (const char* columns : {"80", "120"}) {
    ::setenv("COLUMNS", columns, 1);
    for (const Placement& placement : placements()) {
      std::istringstream lines(
          run("trace 1.25 -2 3.75 4 5 6 7 8 -9.5 10 1e4 12 --branch 1 2 3 4 5 6 7 8 9 1e5 0 -1 "
              "--placement " +
              std::string(placement.name))
              .out);
      for (std::string line; std::getline(lines, line);) {
        EXPECT_LE(report::display_width(line), std::stoi(columns))
            << placement.name << ": " << line;
      }
    }
  }
}

TEST_F(CliTest, OnlyATerminalGetsColours) {
  if (!fs::exists("/dev/pts/ptmx")) GTEST_SKIP() << "there are no pseudo-terminals here";
  EXPECT_THAT(run("trace 1 2").out, Not(HasSubstr("\x1b")));
  const std::string cyan = "\x1b[38;5;37m", orange = "\x1b[38;5;172m", yellow = "\x1b[38;5;178m",
                    green = "\x1b[38;5;71m";
  EXPECT_THAT(run_on_terminal("trace 1 2 --branch 3 1"),
              AllOf(HasSubstr(cyan), HasSubstr(orange), HasSubstr(yellow), HasSubstr(green)));
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_THAT(run_on_terminal("trace 1 2 --branch 3 1"), Not(HasSubstr("\x1b")));
}

TEST_F(CliTest, TraceSpellsGreekWhereThereIsOnlyAscii) {
  ::setenv("LC_ALL", "C", 1);
  const std::string out = run("trace 1 2 3 --branch -1 0 1").out;
  EXPECT_TRUE(std::ranges::all_of(out, [](char c) { return c >= 0; }));
  EXPECT_THAT(out, AllOf(HasSubstr("mean = ("), HasSubstr("dev  = sqrt("), Not(HasSubstr("?"))));
}

TEST_F(CliTest, ReproduceHasTheTutorialsNumbers) {
  const Json json = run_json("reproduce --json");
  EXPECT_EQ(json["seed"], 0);
  EXPECT_NEAR(json["layer_norm"]["before"]["mean"], 0.184, 5e-4);
  EXPECT_NEAR(json["layer_norm"]["before"]["std"], 9.830, 5e-4);
  EXPECT_NEAR(json["layer_norm"]["after"]["mean"], 0, 5e-4);
  EXPECT_NEAR(json["layer_norm"]["after"]["std"], 1, 5e-4);
  EXPECT_EQ(json["block"]["shape"], Json({2, 10, 512}));
  EXPECT_NEAR(json["block"]["mean_abs_difference"], 0.2057, 5e-5);
  EXPECT_EQ(json["block"]["parameters"], 3152384);

  const Result text = run("reproduce");
  EXPECT_EQ(text.status, 0);
  for (const char* number :
       {"0.184", "9.830", "-0.000", "1.000", "[2, 10, 512]", "0.2057", "3,152,384"}) {
    EXPECT_THAT(text.out, ::testing::ContainsRegex(number + ".*"s + number));
  }
  const Result other = run("reproduce --seed 1");
  EXPECT_EQ(other.status, 0);
  EXPECT_THAT(other.out, AllOf(HasSubstr("5.555"), Not(HasSubstr("9.830"))));  // PyTorch 1.13
}

TEST_F(CliTest, BenchIsThePromisedJson) {
  const Json line = run_json(
      "bench --shape 4x8 --kernel layer_norm --dtype f32 --threads 1 --repeats 1 --rival none "
      "--json");
  std::vector<std::string> keys;
  for (const auto& item : line.items()) keys.push_back(item.key());
  EXPECT_THAT(keys, ElementsAre("kernel", "rows", "cols", "dtype", "threads", "isa", "ms",
                                "copy_ms", "onednn_ms", "pytorch_ms"));
  EXPECT_EQ(line["kernel"], "layer_norm");
  EXPECT_EQ(line["rows"], 4);
  EXPECT_EQ(line["cols"], 8);
  EXPECT_EQ(line["dtype"], "f32");
  EXPECT_EQ(line["threads"], 1);
  EXPECT_NE(line["isa"], "");
  for (const char* time : {"ms", "copy_ms", "onednn_ms"}) EXPECT_GT(line[time], 0) << time;
  EXPECT_TRUE(line["pytorch_ms"].is_null());
}

TEST_F(CliTest, BenchShowsATableAndSaysWhyPyTorchIsNotInIt) {
  const Result result = run(
      "bench --shape 4x8,2x3 --kernel add_rms_norm_backward --dtype f32 --threads 1 --repeats 1 "
      "--python /bin/false");
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("\nadd_rms_norm_backward    4x8  "),
                                HasSubstr("\nadd_rms_norm_backward    2x3  ")));
  EXPECT_EQ(result.err,
            "addnorm bench: without pytorch's times: /bin/false does not start\n"
            "addnorm bench: without pytorch_as_is's times: /bin/false does not start\n");
}

TEST_F(CliTest, BenchInPlaceMeasuresWhatAdds) {
  const std::string words =
      "bench --in-place --shape 4x8 --dtype f32 --threads 1 --repeats 1 --rival none";
  EXPECT_EQ(run_json(words + " --kernel add_layer_norm --json")["in_place"], true);
  const std::string table = run(words).out;
  EXPECT_THAT(table, AllOf(HasSubstr(", in place, medians of 1"), HasSubstr("\nadd_layer_norm "),
                           HasSubstr("\nadd_rms_norm_backward "), Not(HasSubstr("\nlayer_norm"))));
}

TEST_F(CliTest, BenchMeasuresAccuracy) {
  const Result result = run("bench --accuracy --python /bin/false");
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("\n     768    100000      1  "),
                                HasSubstr("\n    4096         0  1e-30  ")));
  EXPECT_EQ(result.err, "addnorm bench: without pytorch's errors: /bin/false does not start\n");
}

TEST_F(CliTest, BenchRefusesBadFlags) {
  const std::pair<const char*, const char*> cases[] = {
      {"--kernel softmax",
       "--kernel: 'softmax' is unknown; expected all or some of layer_norm, rms"},
      {"--kernel all,layer_norm", "--kernel: 'all' is unknown"},
      {"--rival jax", "--rival: 'jax' is unknown; expected none or some of pytorch, pytorch_as_is"},
      {"--accuracy --rival jax", "--rival: 'jax' is unknown"},
      {"--dtype f32,f8", "--dtype: 'f8' is unknown; expected some of f32"},
      {"--shape 8x4,8", "shape '8': expected rows and features such as 8192x4096"},
      {"--shape 0x8", "shape '0x8': expected rows"},
      {"--shape 99999999x99999999", "expected at most"},
      {"--threads 0", "--threads: is 0; expected 1 to 1024"},
      {"--threads many", "--threads: 'many' is not a whole number"},
      {"--repeats 0", "--repeats: is 0; expected at least 1"},
      {"--in-place --kernel rms_norm", "--in-place: rms_norm has no sum to overwrite"},
      {"--sweep --shape 4x8", "excludes"},
      {"--accuracy --json", "excludes"},
      {"--python", "--python"},
      {"extra", "extra"},
  };
  for (const auto& [words, part] : cases) {
    SCOPED_TRACE(words);
    expect_error(split("bench "s + words), part);
  }
}

constexpr const char* kSmallStudy =
    "study --text text --layers 2 --width 8 --heads 2 --context 8 --batch 2 --steps 4 --warm-up 2 "
    "--seeds 2 --placement none,post/pre";

std::string some_text() {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += static_cast<char>('a' + (i * i + i / 7) % 19);
  return text;
}

TEST_F(CliTest, StudyWritesItsResultsAndTheSameOnesAgain) {
  write("text", some_text());
  const Result first = run(std::string(kSmallStudy) + " --out one/deep");
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.err, IsEmpty()) << "no progress bar in a pipe";
  EXPECT_THAT(first.out,
              AllOf(HasSubstr("\nnone: Without a norm the stream"),
                    HasSubstr("\npost/pre: The stream"), HasSubstr("one/deep/report.html")));
  EXPECT_EQ(run(std::string(kSmallStudy) + " --out two").status, 0);
  for (const char* name : {"results.json", "profile.jsonl", "report.html"}) {
    EXPECT_EQ(io::read_file(folder_ / "one/deep" / name), io::read_file(folder_ / "two" / name))
        << name;
  }

  const Json results = Json::parse(io::read_file(folder_ / "two/results.json"));
  EXPECT_EQ(results["runs"].size(), 8);
  EXPECT_EQ(results["runs"][0]["losses"].size(), 4);
  EXPECT_EQ(results["placements"][1]["stream_rms"][1].size(), 3) << "two layers and the end";
  const std::string page = io::read_file(folder_ / "two/report.html");
  EXPECT_THAT(page, AllOf(HasSubstr("<svg"), Not(HasSubstr("<script")), Not(HasSubstr("src=")),
                          Not(HasSubstr("@import"))));
}

TEST_F(CliTest, StudyRefusesInOneLineAndWritesNothing) {
  write("text", some_text());
  write("short", "abc");
  write("file", "");
  const struct {
    const char* flags;
    const char* part;
  } cases[] = {
      {"--text nowhere", "nowhere"},
      {"--text .", "directory"},
      {"--text short", "3 bytes"},
      {"--text file", "0 bytes"},
      {"--text text --context 400", "3000 bytes"},
      {"--text text --placement pre,middle", "sandwich"},
      {"--text text --placement post:13", "more layers than there are: 12"},
      {"--text text --out file", "file"},
      {"--text text --out file/deeper", "file/deeper"},
      {"--text text --eps -1", "eps is -1"},
      {"--text text --eps nan", "eps is nan"},
      {"--text text --lr 0", "lr is 0"},
      {"--text text --layers 0", "layers"},
      {"--text text --heads 5", "heads"},
      {"--text text --steps -3", "--steps"},
      {"--text text --seeds many", "--seeds"},
      {"--text text --init random", "xavier"},
      {"--text text --norm batch", "rms"},
      {"--text text --dropout 1", "dropout"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.flags);
    expect_error(split("study "s + c.flags), c.part);
  }
}

constexpr const char* kSmallFigure = "lab gradient-flow --layers 3 --width 64 --seeds 4";

TEST_F(CliTest, LabListsFiguresAndBugs) {
  const Result list = run("lab list");
  EXPECT_EQ(list.status, 0);
  EXPECT_THAT(list.out, AllOf(HasSubstr("gradient-flow: "), HasSubstr("--seeds 8"),
                              HasSubstr("residual-missing")));
  EXPECT_EQ(run("lab").out, list.out);
  const Json json = run_json("lab --json");
  const auto figure = std::ranges::find_if(
      json["figures"], [](const Json& f) { return f["name"] == "gradient-flow"; });
  ASSERT_NE(figure, json["figures"].end());
  EXPECT_EQ((*figure)["options"],
            Json({{"layers", {12}}, {"width", 128}, {"seeds", 8}, {"seed", 0}}));
  EXPECT_EQ(json["bugs"][0]["name"], "residual-missing");
  EXPECT_THAT(contents(), IsEmpty());
}

TEST_F(CliTest, LabWritesItsFiguresAndTheSameOnesAgain) {
  const Result first = run(std::string(kSmallFigure) + " --out one/deep");
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.err, IsEmpty()) << "no progress bar in a pipe";
  EXPECT_THAT(first.out, AllOf(HasSubstr("\nVerdict: inside, "), HasSubstr("● neither"),
                               HasSubstr("one/deep/index.html")));
  const Json json = run_json(std::string(kSmallFigure) + " --json --out two");
  for (const char* name : {"gradient-flow.svg", "gradient-flow.json", "index.html"}) {
    EXPECT_EQ(io::read_file(folder_ / "one/deep" / name), io::read_file(folder_ / "two" / name))
        << name;
  }
  EXPECT_EQ(json, Json::parse(io::read_file(folder_ / "two/gradient-flow.json")));
  EXPECT_EQ(json["options"], Json({{"layers", {3}}, {"width", 64}, {"seeds", 4}, {"seed", 0}}));
  EXPECT_EQ(json["panels"][0]["measured"][0]["x"], Json({0.0, 1.0, 2.0, 3.0}));
  EXPECT_EQ(json["panels"][0]["measured"].size(), json["panels"][0]["predicted"].size());
  EXPECT_NE(json, Json::parse(run(std::string(kSmallFigure) + " --seed 1 --json").out));
}

TEST_F(CliTest, LabShowsAllFiguresOfItsFolderOnOnePage) {
  const auto page = [&] { return io::read_file(folder_ / "out/lab/index.html"); };
  const auto figures = [&] {
    std::vector<std::string> names;
    const std::string html = page();
    constexpr std::string_view kHead = "<h2 id=\"";
    for (std::size_t at = 0; (at = html.find(kHead, at)) != html.npos;) {
      at += kHead.size();
      names.push_back(html.substr(at, html.find('"', at) - at));
    }
    return names;
  };
  run("lab epsilon pipeline --width 16");
  EXPECT_THAT(figures(), ElementsAre("pipeline", "epsilon"));
  const std::string both = page();
  const Result second = run(kSmallFigure);
  EXPECT_EQ(second.status, 0) << second.err;
  EXPECT_THAT(figures(), ElementsAre("gradient-flow", "pipeline", "epsilon"));
  EXPECT_THAT(second.out, AllOf(HasSubstr("out/lab/gradient-flow.svg"),
                                HasSubstr("out/lab/gradient-flow.json"), Not(HasSubstr("FIGURE"))));
  fs::remove(folder_ / "out/lab/gradient-flow.json");
  run("lab pipeline --width 16");
  EXPECT_EQ(page(), both) << "figures come back from their files as they were";

  write("out/lab/epsilon.json", "{\"figure\": \"epsilon\"}");  // truncated, or of another version
  const Result third = run("lab pipeline --width 16");
  EXPECT_EQ(third.status, 0);
  EXPECT_THAT(third.err,
              AllOf(StartsWith("addnorm lab: index.html leaves out out/lab/epsilon.json: "),
                    EndsWith("\n")));
  EXPECT_THAT(figures(), ElementsAre("pipeline"));
}

TEST_F(CliTest, PrintsCommandsThatCanBeTypedWhereItWasCalled) {
  fs::create_directory(folder_ / "my tools");
  fs::create_symlink(ADDNORM_PROGRAM, folder_ / "my tools/addnorm");
  const auto shell = [&](const std::string& command) {
    const std::string line = "cd '" + folder_.string() + "' && " + command + " > said 2>&1";
    const int status = std::system(line.c_str());
    return std::pair(status, io::read_file(folder_ / "said"));
  };
  const auto commands_in = [](const std::string& text) {
    std::vector<std::string> commands;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("  'my tools/addnorm' ")) commands.push_back(line);
    }
    return commands;
  };
  const std::string program = "'my tools/addnorm' ";
  std::string text;
  for (int i = 0; i < 400; ++i) text += "To be, or not to be: that is the question. ";
  write("it's a text", text);
  const std::string small = " --steps 2 --width 16 --heads 2 --context 16 --seeds 1";
  const auto [done, out] = shell(program + "study --text \"it's a text\" --placement pre" + small);
  EXPECT_EQ(done, 0) << out;
  const std::vector<std::string> next = commands_in(out);
  ASSERT_EQ(next.size(), 4u) << out;
  for (const std::string& command : next) {
    const bool is_study = command.find(" study ") != std::string::npos;
    const auto [status, words] = shell(command + (is_study ? small : ""));
    EXPECT_EQ(status, 0) << command << "\n" << words;
  }
  EXPECT_EQ(commands_in(shell(program + "lab list").second).size(), 3u);
  EXPECT_EQ(commands_in(shell(program + "trace --help").second).size(), 6u);
  EXPECT_THAT(shell(program + "trace").second, HasSubstr("'my tools/addnorm' trace 1 2 3 4"));
  EXPECT_THAT(shell(program + "manual man").second, Not(HasSubstr("my tools")));
}

TEST_F(CliTest, LabTakesASeedForAFigureThatDrawsOnce) {
  const Json json = run_json("lab pipeline --width 16 --seed 3 --json");
  EXPECT_EQ(json["options"], Json({{"width", 16}, {"seed", 3}}));
  EXPECT_NE(json["panels"], run_json("lab pipeline --width 16 --json")["panels"]);
}

TEST_F(CliTest, LabSeesWhatIsBroken) {
  const Result broken = run(std::string(kSmallFigure) + " --break residual-missing --json");
  EXPECT_EQ(broken.status, 1) << broken.err;
  const Json json = Json::parse(broken.out);
  EXPECT_EQ(json["options"]["bug"], "residual-missing");
  EXPECT_EQ(json["verdict"], "outside");
  EXPECT_TRUE(fs::exists(folder_ / "out/lab/index.html")) << "the verdict's evidence";
}

TEST_F(CliTest, LabRefusesInOneLineAndWritesNothing) {
  write("file", "");
  const struct {
    const char* words;
    const char* part;
  } cases[] = {
      {"nothing", "gradient-flow"},
      {"gradient-flow nothing", "gradient-flow"},
      {"all gradient-flow", "'all': cannot be combined"},
      {"list gradient-flow", "'list': cannot be combined"},
      {"--layers 3", "--layers: no figure is named"},
      {"gradient-flow --layers 0", "--layers is 0"},
      {"gradient-flow --layers 3,6", "--layers: gradient-flow takes one number"},
      {"gradient-flow --layers 3,x", "--layers: 'x' is not a whole number"},
      {"gradient-flow --layers 97", "1 to 96"},
      {"gradient-flow --width 0", "--width: is 0"},
      {"gradient-flow --width 8", "16 to 1024"},
      {"gradient-flow --seeds 0", "--seeds: is 0"},
      {"gradient-flow --seed -1", "--seed: '-1'"},
      {"pipeline --seeds 2", "--seeds: pipeline has no such option"},
      {"gradient-flow --placement pre", "--placement: gradient-flow has no such option"},
      {"gradient-flow --text file", "--text: gradient-flow has no such option"},
      {"gradient-flow --break everything", "--break: 'everything' is unknown"},
      {"gradient-flow --out file", "file"},
      {"gradient-flow --out file/deeper", "file/deeper"},
      {"all --width 8", "16 to 1024"},
      {"all --layers 24 --text file", "--text: has"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.words);
    expect_error(split("lab "s + c.words), c.part);
  }
}

/// A norm of a (2, 4, 3) array: the set and the channel of the value at an index.
struct NormCase {
  const char* flags;
  std::function<int(int)> set;
  std::function<int(int)> channel;
  bool centres = true;
  double epsilon = 1e-5;
  bool epsilon_at_deviation = false;
  int divisor_is_less_by = 0;
  double gamma_offset = 0;
};

const NormCase kNormCases[] = {
    {"", [](int i) { return i / 3; }, [](int i) { return i % 3; }},
    {"--kind layer --eps 0.5 --eps-at deviation --variance unbiased", [](int i) { return i / 3; },
     [](int i) { return i % 3; }, true, 0.5, true, 1},
    {"--kind rms --unit-offset --eps 1e-2", [](int i) { return i / 3; },
     [](int i) { return i % 3; }, false, 1e-2, false, 0, 1},
    {"--kind batch", [](int i) { return i / 3 % 4; }, [](int i) { return i / 3 % 4; }},
    {"--kind instance --variance unbiased", [](int i) { return i / 3; },
     [](int i) { return i / 3 % 4; }, true, 1e-5, false, 1},
    {"--kind group --groups 2 --unit-offset", [](int i) { return i / 6; },
     [](int i) { return i / 3 % 4; }, true, 1e-5, false, 0, 1},
};
constexpr int kSize = 24;

/// Returns y by the formula of NormOptions, one value after the other.
Vector normalize(const NormCase& c, const Vector& x, const Vector& gamma, const Vector& beta) {
  Vector y(x.size());
  for (int i = 0; i < kSize; ++i) {
    double n = 0, mean = 0, squares = 0;
    for (int j = 0; j < kSize; ++j) n += c.set(j) == c.set(i);
    for (int j = 0; j < kSize; ++j) mean += c.set(j) == c.set(i) ? x[j] / n : 0;
    if (!c.centres) mean = 0;
    for (int j = 0; j < kSize; ++j) {
      squares += c.set(j) == c.set(i) ? (x[j] - mean) * (x[j] - mean) : 0;
    }
    const double variance = squares / (n - c.divisor_is_less_by);
    const double deviation =
        c.epsilon_at_deviation ? std::sqrt(variance) + c.epsilon : std::sqrt(variance + c.epsilon);
    const int k = c.channel(i);
    y[i] = (c.gamma_offset + gamma[k]) * (x[i] - mean) / deviation + beta[k];
  }
  return y;
}

/// Returns the gradient of Σ dy·y by central differences; y is a function of `at`.
Vector gradient(const Vector& at, const Vector& dy, const std::function<Vector(const Vector&)>& y) {
  constexpr double kStep = 1e-5;
  Vector result(at.size());
  for (std::size_t k = 0; k < at.size(); ++k) {
    for (const double step : {kStep, -kStep}) {
      Vector moved = at;
      moved[k] += step;
      const Vector values = y(moved);
      for (std::size_t i = 0; i < dy.size(); ++i) result[k] += dy[i] * values[i] / (2 * step);
    }
  }
  return result;
}

/// Returns numbers that float32 can represent.
Vector some_numbers(int n, int seed) {
  Vector result;
  for (int i = 0; i < n; ++i) result.push_back(((i * 37 + seed * 11) % 64 - 30) / 16.0);
  return result;
}

template <typename T>
class CliNormTest : public CliTest {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(CliNormTest, Types);

TYPED_TEST(CliNormTest, GivesTheFormulasNumbersAndTheirGradients) {
  using T = TypeParam;
  // 1e-8 is the error of the differences
  const double tolerance = std::is_same_v<T, float> ? 1e-5 : 1e-8;
  for (const NormCase& c : kNormCases) {
    SCOPED_TRACE(c.flags);
    const int channels = c.channel(3) == 0 ? 3 : 4;
    const Vector x = some_numbers(kSize, 1), residual = some_numbers(kSize, 2);
    const Vector gamma = some_numbers(channels, 3), beta = some_numbers(channels, 4);
    const Vector dy = some_numbers(kSize, 5);
    const io::Shape shape{2, 4, 3}, per_channel{static_cast<std::size_t>(channels)};
    this->template write<T>("x.npy", shape, x);
    this->template write<T>("r.npy", shape, residual);
    this->template write<T>("g.npy", per_channel, gamma);
    this->template write<T>("b.npy", per_channel, beta);
    this->template write<T>("dy.npy", shape, dy);
    const Result result = this->run(
        "norm --input x.npy --residual r.npy --sum s.npy --gamma g.npy --beta b.npy "
        "--output y.npy --grad-output dy.npy --grad-input dx.npy --grad-gamma dg.npy "
        "--grad-beta db.npy "s +
        c.flags);
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out + result.err, IsEmpty());

    Vector sum = x;
    for (int i = 0; i < kSize; ++i) sum[i] += residual[i];
    const auto expect = [&](const char* file, const io::Shape& size, const Vector& expected) {
      EXPECT_EQ(this->read(file).shape, size) << file;
      EXPECT_LT(relative_error(this->template values<T>(file), expected), tolerance) << file;
    };
    expect("s.npy", shape, sum);
    expect("y.npy", shape, normalize(c, sum, gamma, beta));
    expect("dx.npy", shape,
           gradient(sum, dy, [&](const Vector& v) { return normalize(c, v, gamma, beta); }));
    expect("dg.npy", per_channel,
           gradient(gamma, dy, [&](const Vector& v) { return normalize(c, sum, v, beta); }));
    expect("db.npy", per_channel,
           gradient(beta, dy, [&](const Vector& v) { return normalize(c, sum, gamma, v); }));
  }
}

TEST_F(CliTest, NormWithoutGammaHasItsGradientAllTheSame) {
  write("x.npy", {2}, {1, 3});
  write("dy.npy", {2}, {1, 10});
  ASSERT_EQ(run("norm --input x.npy --output x.npy --eps 0 --unit-offset --grad-output dy.npy "
                "--grad-input dx.npy --grad-gamma dg.npy")
                .status,
            0);
  EXPECT_THAT(values<float>("x.npy"), ElementsAre(-1, 1));  // overwrites its own input
  EXPECT_THAT(values<float>("dg.npy"), ElementsAre(-1, 10));
  EXPECT_THAT(values<float>("dx.npy"), ElementsAre(0, 0));  // two values always become −1 and 1
}

TEST_F(CliTest, NormOfNoRowsHasNoRows) {
  write("x.npy", {0, 3}, {});
  for (const char* kind : {"layer", "rms", "instance", "group --groups 3"}) {
    SCOPED_TRACE(kind);
    const Result result =
        run("norm --input x.npy --residual x.npy --sum s.npy --output y.npy --grad-output x.npy "
            "--grad-input dx.npy --grad-gamma dg.npy --grad-beta db.npy --kind "s +
            kind);
    ASSERT_EQ(result.status, 0) << result.err;
    for (const char* file : {"y.npy", "s.npy", "dx.npy"}) {
      EXPECT_THAT(read(file).shape, ElementsAre(0, 3));
    }
    EXPECT_THAT(values<float>("dg.npy"), ElementsAre(0, 0, 0));
    EXPECT_THAT(values<float>("db.npy"), ElementsAre(0, 0, 0));
  }
}

TEST_F(CliTest, NormKeepsNanInItsRow) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  write("x.npy", {3, 2}, {1, std::nan(""), 3, 5, kInfinity, 1});
  ASSERT_EQ(run("norm --input x.npy --output y.npy --eps 0").status, 0);
  const Vector y = values<float>("y.npy");
  EXPECT_THAT((Vector{y[2], y[3]}), ElementsAre(-1, 1));
  for (const int i : {0, 1, 4, 5}) EXPECT_TRUE(std::isnan(y[i])) << i;
}

struct ErrorCase {
  std::vector<std::string> arguments;
  const char* part;
};

#ifndef ADDNORM_MPI
TEST_F(CliTest, TrainOnSeveralProcessesNeedsMpi) {
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  const Result result = run("train --preset tiny --out run");
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("built without MPI"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}
#endif

TEST_F(CliTest, BadUsageIsOneLineAndNothingElse) {
  const ErrorCase cases[] = {
      {{}, "expected one of"},
      {{"foo"}, "'foo' is not a command"},
      {{"--"}, "expected one of"},
      {{"--foo"}, "--foo"},
      {{"trace", "--foo", "1"}, "addnorm trace: The following argument was not expected: --foo"},
      {{"trace", "1", "-x"}, "-x"},
      {{"trace"}, "VALUES"},
      {{"trace", "--json"}, "VALUES"},
      {{"trace", "--gamma", "2", "1", "2"}, "VALUES"},
      {{"trace", "1", "abc"}, "VALUES: 'abc' is not a number"},
      {{"trace", "1", "2\n3"}, "VALUES: '2 3' is not a number"},
      {{"trace", ""}, "VALUES: '' is not a number"},
      {{"trace", "1,,2"}, "VALUES: '' is not a number"},
      {{"trace", "0x10"}, "'0x10'"},
      {{"trace", "1e400"}, "1e400 is out of range"},
      {{"trace", "-1e400"}, "-1e400 is out of range"},
      {{"trace", "1", "-.5e999"}, "-.5e999 is out of range"},
      {{"trace", "1", "2", "--branch", "1"}, "branch: has 1 values; expected 2"},
      {{"trace", "1", "2", "--branch"}, "--branch"},
      {{"trace", "1", "2", "--gamma", "1", "2", "3"}, "gamma: has 3 values"},
      {{"trace", "1", "2", "--beta", "x"}, "--beta: 'x'"},
      {{"trace", "1", "--variance", "unbiased"}, "unbiased"},
      {{"trace", "1", "2", "--variance", "foo"},
       "--variance: 'foo' is unknown; expected one of "
       "population, unbiased"},
      {{"trace", "1", "--norm", "batch"}, "expected one of layer, rms"},
      {{"trace", "1", "--placement", "before"}, "placement \"before\" is unknown"},
      {{"trace", "1", "2", "/", "--placement", "mhc"}, "VALUES: expected numbers after the last /"},
      {{"trace", "/", "1", "--placement", "mhc"}, "VALUES: expected numbers before each /"},
      {{"trace", "1", "/", "2", "3", "--placement", "mhc"}, "lane 1 has 2; expected 1"},
      {{"trace", "1", "/", "2", "/", "3", "--placement", "x0"}, "takes 2 lanes, not 3"},
      {{"trace", "1", "--placement", "pre", "--lanes", "4"}, "takes 1 lane, not 4"},
      {{"trace", "1", "--placement", "mhc", "--layer", "13"}, "layer: is 13; expected 1 to 12"},
      {{"trace", "1", "--placement", "mhc", "--sublayer", "x"}, "--sublayer: 'x' is unknown"},
      {{"trace", "1", "--eps-at", "x"}, "expected one of variance, deviation"},
      {{"trace", "1", "--eps", "-1"}, "--eps: is -1"},
      {{"trace", "1", "--eps", "nan"}, "--eps: is nan"},
      {{"trace", "1", "--eps", "inf"}, "--eps: is inf"},
      {{"trace", "1", "--eps", "x"}, "--eps: 'x' is not a number"},
      {{"trace", "1", "--eps"}, "--eps"},
      {{"trace", "1", "--eps", "1", "--eps", "2"}, "--eps: is given 2 times; expected once"},
      {{"trace", "1", "--json", "--eps", "1", "--foo"}, "not expected: --foo"},
      {{"trace", "1", "--json=no"}, "json"},
      {{"trace", "1", "--json", "--norm", "x"}, "--norm"},
      {{"reproduce", "--seed", "-1"}, "--seed: '-1'"},
      {{"reproduce", "--seed", "1.5"}, "--seed: '1.5'"},
      {{"reproduce", "--seed", "99999999999999999999"},
       "--seed: 99999999999999999999 is too large; expected at most 18446744073709551615"},
      {{"reproduce", "5"}, "5"},
      {{"norm"}, "--input is required"},
      {{"norm", "--input", "x.npy"}, "--output is required"},
      {{"serve", "--port", "65536"}, "--port"},
      {{"serve", "--port", "http"}, "--port"},
      {{"serve", "--folder", "nowhere"}, "--folder: nowhere has no index.html"},
  };
  for (const ErrorCase& c : cases) {
    SCOPED_TRACE(::testing::PrintToString(c.arguments));
    expect_error(c.arguments, c.part);
  }
}

TEST_F(CliTest, BadFilesAreOneLineAndNothingIsWritten) {
  const Vector twelve = some_numbers(12, 1);
  write("x.npy", {3, 4}, twelve);
  write<double>("x64.npy", {3, 4}, twelve);
  write("turned.npy", {4, 3}, twelve);
  write("g.npy", {4}, some_numbers(4, 1));
  write<double>("g64.npy", {4}, some_numbers(4, 1));
  write("g3.npy", {3}, some_numbers(3, 1));
  write("scalar.npy", {}, {1});
  write("featureless.npy", {3, 0}, {});
  write("single.npy", {3, 1}, {1, 2, 3});
  write("none.npy", {0, 4}, {});
  const std::string good = io::to_npy({3, 4}, std::vector<float>(12));
  std::string fortran = good, integers = good;
  fortran.replace(fortran.find("False"), 5, "True ");
  integers.replace(integers.find("<f4"), 3, "<i4");
  write("fortran.npy", fortran);
  write("integers.npy", integers);
  write("truncated.npy", good.substr(0, good.size() - 1));
  write("empty.npy", "");
  write("text.npy", "1 2 3\n");
  fs::create_directory(folder_ / "folder");

  const std::string out = " --output y.npy", x = "--input x.npy" + out;
  const std::pair<std::string, const char*> cases[] = {
      {"--input missing.npy" + out, "missing.npy: cannot be read"},
      {"--input folder" + out, "folder: cannot be read"},
      {"--input empty.npy" + out, "empty.npy: is not a .npy file"},
      {"--input text.npy" + out, "text.npy: is not a .npy file"},
      {"--input truncated.npy" + out, "truncated.npy: truncated"},
      {"--input fortran.npy" + out, "fortran.npy: Fortran order"},
      {"--input integers.npy" + out, "integers.npy: dtype '<i4'"},
      {"--input scalar.npy" + out, "scalar.npy: has shape ()"},
      {"--input featureless.npy" + out, "featureless.npy: has shape (3, 0)"},
      {"--input g.npy --kind batch" + out, "g.npy: has shape (4,); expected (N, C, …)"},
      {"--input none.npy --kind batch" + out, "none.npy: there are no values"},
      {"--input single.npy --variance unbiased" + out, "single.npy: the unbiased variance"},
      {"--input x.npy --kind instance --variance unbiased" + out, "x.npy: the unbiased variance"},
      {x + " --gamma g3.npy", "g3.npy: has shape (3,); expected (4,)"},
      {x + " --beta x.npy", "x.npy: has shape (3, 4); expected (4,)"},
      {x + " --kind rms --gamma g64.npy", "g64.npy: is float64; expected float32 as in x.npy"},
      {"--input x64.npy --beta g.npy" + out, "g.npy: is float32; expected float64 as in x64.npy"},
      {x + " --residual turned.npy", "turned.npy: has shape (4, 3); expected (3, 4)"},
      {x + " --residual x64.npy --sum s.npy", "x64.npy: is float64"},
      {x + " --sum s.npy", "--sum requires --residual"},
      {x + " --grad-input dx.npy", "--grad-input requires --grad-output"},
      {x + " --grad-output x.npy", "--grad-output requires --grad-input"},
      {x + " --grad-gamma dg.npy", "--grad-gamma requires --grad-input"},
      {x + " --grad-output x.npy --grad-beta db.npy", "requires --grad-input"},
      {x + " --grad-output turned.npy --grad-input dx.npy", "turned.npy: has shape (4, 3)"},
      {x + " --kind group", "--groups: is 0; expected at least 1"},
      {x + " --kind group --groups 3", "--groups: is 3; expected a divisor of the 4 channels"},
      {x + " --kind layer --groups 2", "--groups: is 2"},
      {x + " --kind group --groups -1", "--groups: '-1'"},
      {x + " --kind foo", "expected one of layer, rms, batch, instance, group"},
      {x + " --eps -1", "--eps: is -1"},
      {x + " extra", "extra"},
      {"--input x.npy --output folder", "folder: is a folder"},
      {"--input x.npy --output nowhere/y.npy", "nowhere/y.npy: there is no folder"},
      {x + " --residual x.npy --sum nowhere/s.npy", "nowhere/s.npy: there is no folder"},
      {x + " --residual x.npy --sum y.npy", "y.npy: is the same file as y.npy"},
  };
  for (const auto& [words, part] : cases) {
    SCOPED_TRACE(words);
    expect_error(split("norm " + words), part);
  }
  expect_error({"norm", "--input", "x.npy", "--output", "y.npy", "--gamma", ""},
               "--gamma: is empty");
  expect_error({"norm", "--input", "new\nline", "--output", "y.npy"}, "new line: cannot be read");
}

TEST_F(CliTest, EmptyValuesAreRefused) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"serve", "--port", ""}, "--port: is empty; expected PORT"},
      {{"serve", "--port="}, "--port: "},
      {{"serve", "--folder", ""}, "--folder: is empty; expected DIR"},
      {{"serve", "--runs", ""}, "--runs: is empty; expected DIR"},
      {{"doctor", ""}, "TARGET: is empty"},
      {{"generate", ""}, "RUN: is empty"},
      {{"generate", "run", "--tokens", ""}, "--tokens: ''"},
      {{"train", "--text", "", "--out", "run"}, "--text: is empty; expected FILE"},
      {{"train", "--text", "x", "--out", ""}, "--out: is empty"},
      {{"lab", ""}, "FIGURE: is empty"},
      {{"lab", "variance", "--layers", ""}, "--layers: ''"},
      {{"trace", "1", "2", "--placement", ""}, "--placement: is empty"},
      {{"bench", "--plan", "--machine", ""}, "--machine: is empty; expected NAME"},
      {{"placements", ""}, "NAME: is empty"},
      {{"--pipe-limit", "", "placements"}, "--pipe-limit"},
  };
  for (const auto& [arguments, part] : cases) expect_error(arguments, part);
}

TEST_F(CliTest, ErrorsAreShortHoweverLongTheNames) {
  const std::string name(4000, 'a');
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"norm", "--input", name, "--output", "y.npy"},
        {"norm", "--input", "x.npy", "--kind", name},
        {"doctor", name},
        {"lab", name},
        {name}}) {
    const Result result = run(arguments);
    EXPECT_EQ(result.status, 2);
    EXPECT_LE(result.err.size(), 301U);
    EXPECT_THAT(result.err, AllOf(StartsWith("addnorm"), HasSubstr("…"), EndsWith("\n")));
  }
}

TEST_F(CliTest, DevicesAreNoEndlessInput) {
  expect_error({"norm", "--input", "/dev/zero", "--output", "y.npy"}, "/dev/zero: gives more than");
}

TEST_F(CliTest, AFullDiskIsAnError) {
  write("x.npy", {2}, {1, 3});
  expect_error({"norm", "--input", "x.npy", "--output", "/dev/full"}, "is not a regular file");
  for (const char* words : {"lab list", "placements", "trace 1 2 3", "norm --help", "manual man"}) {
    std::FILE* err = std::tmpfile();
    const int full = ::open("/dev/full", O_WRONLY);
    const pid_t child = ::fork();
    if (child == 0) become_program(folder_, split(words), full, ::fileno(err));
    EXPECT_EQ(wait_for(child), 2) << words;
    std::rewind(err);
    EXPECT_THAT(read_to_end(::fileno(err)), HasSubstr("standard output: cannot be written"))
        << words;
    std::fclose(err);
    ::close(full);
  }
}

}  // namespace
}  // namespace addnorm
