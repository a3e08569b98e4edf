// Tests of `addnorm train` and `addnorm generate` as programs: interruptions, bad input, and the
// files that they leave.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <random>
#include <thread>

#include "run/checkpoint.h"
#include "run/memory.h"
#include "run/metrics.h"
#include "run/run_folder.h"
#include "run/training_run.h"
#include "support/long_tests.h"
#include "support/program.h"

namespace addnorm {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using namespace std::string_literals;
using ::testing::AllOf;
using testing::become_program;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Result;
using testing::split;
using ::testing::StartsWith;
using testing::wait_for;

constexpr const char* kSmall =
    "--text text --layers 2 --width 16 --heads 2 --context 16 --batch 2 --warm-up 2 ";

class TrainCommandTest : public testing::ProgramTest {
 protected:
  TrainCommandTest() {
    std::string text;
    for (int i = 0; i < 400; ++i) text += fmt::format("sentence {} of this text. ", i * i % 97);
    write("text", text);
  }

  run::RunFiles files(const std::string& run) const {
    return run::RunFiles((folder_ / run).string());
  }
  std::string checkpoint(const std::string& run) const {
    return io::read_file(files(run).checkpoint);
  }

  /// Starts the program without waiting for it.
  pid_t start(const std::string& words, std::FILE* out) const {
    const pid_t child = ::fork();
    if (child == 0) become_program(folder_, split(words), ::fileno(out), ::fileno(out));
    return child;
  }
  /// Waits until the run has made this many steps.
  void wait_for_steps(const std::string& run, std::size_t steps) const {
    for (int tries = 0; tries < 6000; ++tries) {
      if (run::read_metrics(files(run).metrics).steps.size() >= steps) return;
      std::this_thread::sleep_for(5ms);
    }
    FAIL() << "the run makes no steps";
  }
  /// Checks words that fail with status 2, one line on standard error, and no change to the run's
  /// checkpoint.
  void expect_refused(const std::string& words, const std::string& part) const {
    const std::string before = fs::exists(files("run").checkpoint) ? checkpoint("run") : "";
    const Result result = run("train " + words);
    EXPECT_EQ(result.status, 2) << words;
    EXPECT_THAT(result.err, AllOf(StartsWith("addnorm train: "), HasSubstr(part)));
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
    EXPECT_TRUE((fs::exists(files("run").checkpoint) ? checkpoint("run") : "") == before) << words;
  }
};

TEST_F(TrainCommandTest, TrainsAndLetsTheModelWrite) {
  const Result trained = run(kSmall + "train --out run --steps 20 --validate-every 10"s);
  EXPECT_EQ(trained.status, 2);  // flags come after their command
  const Result result = run("train --out run --steps 20 --validate-every 10 "s + kSmall);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_THAT(result.out, AllOf(HasSubstr("2 layers, width 16, pre-norm, f32:"),
                                HasSubstr("step     10: loss"), HasSubstr("bits per byte"),
                                HasSubstr("Time: products"), HasSubstr("run/report.html")));
  EXPECT_THAT(io::read_file(files("run").report),
              AllOf(HasSubstr("20 of 20 steps"), HasSubstr("The residual stream")));

  const Result text = run("generate run --prompt sen --tokens 30 --seed 4");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, StartsWith("sen"));
  EXPECT_EQ(text.out.size(), 3 + 30 + 1);
  EXPECT_EQ(run("generate run --prompt sen --tokens 30 --seed 4").out, text.out);
  EXPECT_EQ(run("generate run/checkpoint.safetensors --prompt sen --tokens 30 --seed 4").out,
            text.out);
  EXPECT_NE(run("generate run --prompt sen --tokens 30 --seed 5").out, text.out);
  write("prompt", "sen");
  const int file = ::open((folder_ / "prompt").c_str(), O_RDONLY);
  const int standard = ::dup(0);
  ::dup2(file, 0);
  EXPECT_EQ(run("generate run --prompt - --tokens 30 --seed 4").out, text.out);
  ::dup2(standard, 0);
  ::close(standard);
  ::close(file);
}

TEST_F(TrainCommandTest, AConfigurationFileSaysTheSameAsFlags) {
  EXPECT_EQ(run("train --out run --steps 6 --lr 1e-3 --placement post "s + kSmall).status, 0);
  EXPECT_EQ(run("train --out again --config run/config.json").status, 0);
  EXPECT_TRUE(checkpoint("run") == checkpoint("again"));
  EXPECT_EQ(run("train --out other --config run/config.json --seed 1").status, 0);
  EXPECT_FALSE(checkpoint("run") == checkpoint("other"));
}

TEST_F(TrainCommandTest, ResumeBeginsWhereThereIsNothingAndSaysSo) {
  const Result result = run("train --out run --resume --steps 2 "s + kSmall);
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err,
            "addnorm train: --resume: run has no checkpoint, so the run starts from step 0\n");
  EXPECT_THAT(result.out,
              AllOf(StartsWith("2 layers, width 16, pre-norm"), HasSubstr("2 steps: ")));
}

TEST_F(TrainCommandTest, TheCheckpointHasTheConfiguration) {
  ASSERT_EQ(run("train --out run --steps 5 "s + kSmall).status, 0);
  fs::remove(files("run").config);
  expect_refused("--out run --resume",
                 "--text: is missing; expected files to train on, which "
                 "run/config.json does not name");
  EXPECT_EQ(run("train --out run --resume --steps 8 --text text").status, 0);
  EXPECT_EQ(run::read_config(files("run").config).width, 16);
}

TEST_F(TrainCommandTest, KilledAnywhereItGoesOnToTheSameBits) {
  const std::string flags =
      "train --resume --steps 400 --checkpoint-every 7 --dropout 0.1 "s + kSmall;
  EXPECT_EQ(run(flags + "--out whole").status, 0);
  std::mt19937 random(1);  // the moments differ anyway
  std::FILE* out = std::tmpfile();
  for (const std::size_t steps : {10, 80, 150, 220}) {
    const pid_t child = start(flags + "--out broken", out);
    wait_for_steps("broken", steps);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    ::kill(child, SIGKILL);
    EXPECT_EQ(wait_for(child), -1) << "it ended before it was killed";
  }
  std::fclose(out);
  EXPECT_EQ(run(flags + "--out broken").status, 0);
  EXPECT_TRUE(checkpoint("whole") == checkpoint("broken"));
  EXPECT_EQ(io::read_file(files("whole").profile), io::read_file(files("broken").profile));
  EXPECT_EQ(run::read_metrics(files("broken").metrics).steps.size(), 400);
  for (const auto& entry : fs::directory_iterator(folder_ / "broken")) {
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
}

TEST_F(TrainCommandTest, ASignalStopsAfterTheStepWithACheckpoint) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string name = fmt::format("run{}", signal);
    std::FILE* out = std::tmpfile();
    const pid_t child = start("train --out " + name + " --steps 1000000 " + kSmall, out);
    wait_for_steps(name, 3);
    ::kill(child, signal);
    EXPECT_EQ(wait_for(child), 0);
    std::rewind(out);
    EXPECT_THAT(
        testing::read_to_end(::fileno(out)),
        AllOf(HasSubstr("Stopping after this step (again: at once)\n"),
              HasSubstr("Stopped after step"), HasSubstr("addnorm train --resume --out " + name)));
    std::fclose(out);
    const std::size_t steps = run::read_metrics(files(name).metrics).steps.size();
    EXPECT_EQ(run::Checkpoint(files(name).checkpoint).state().steps, steps);
  }
}

// nohup ignores SIGHUP, and a shell without job control ignores SIGINT for what runs in the
// background.
TEST_F(TrainCommandTest, SignalsThatWereIgnoredStayIgnored) {
  for (const int signal : {SIGINT, SIGHUP}) {
    const std::string name = fmt::format("ignored{}", signal);
    std::FILE* out = std::tmpfile();
    const auto before = std::signal(signal, SIG_IGN);
    const pid_t child = start("train --out " + name + " --steps 1000000 " + kSmall, out);
    std::signal(signal, before);
    wait_for_steps(name, 3);
    ::kill(child, signal);
    wait_for_steps(name, run::read_metrics(files(name).metrics).steps.size() + 20);
    ::kill(child, SIGTERM);
    EXPECT_EQ(wait_for(child), 0);
    std::fclose(out);
  }
}

TEST_F(TrainCommandTest, AFolderBelongsToOneRunAtATime) {
  std::FILE* out = std::tmpfile();
  const pid_t child = start("train --out run --steps 1000000 --checkpoint-every 0 "s + kSmall, out);
  wait_for_steps("run", 1);
  expect_refused("--out run "s + kSmall, "run: the run's folder is in use by another process");
  ::kill(child, SIGKILL);
  wait_for(child);
  std::fclose(out);
}

TEST_F(TrainCommandTest, SaysWhereTheLossWasFirstNotFinite) {
  const Result result =
      run("train --out run --steps 50 --lr 1e30 --clip 0 --placement none "s + kSmall);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, AllOf(HasSubstr("is not finite: first in "), HasSubstr("layer 0"),
                                HasSubstr("\nThere was no checkpoint yet.\n")));
  EXPECT_FALSE(fs::exists(files("run").checkpoint));
}

TEST_F(TrainCommandTest, RefusesBadInput) {
  write("empty", "");
  write("short", "a text smaller than one batch");
  write("bad.json", R"({"wdith": 3})");
  write("no.json", "{\n  width: 3\n}");
  write("twice.json", R"({"width": 3, "width": 4})");
  write("deep.json", "{\"width\": " + std::string(100'000, '['));
  expect_refused(kSmall, "--out: is missing");
  expect_refused("--out run --text empty", "the text has 0 bytes");
  expect_refused("--out run --text short",
                 "the text has 29 bytes, a context of 128 needs at least");
  expect_refused("--out run --text nowhere", "nowhere: cannot be read");
  expect_refused("--out run", "--text: is missing");
  expect_refused("--out run --config bad.json "s, R"("wdith" is not a setting)");
  expect_refused("--out run --config no.json",
                 "no.json: is not JSON: line 2, column 3: unexpected width, expected a key");
  expect_refused("--out run --config twice.json",
                 R"(twice.json: column 20: the key "width" occurs twice)");
  expect_refused("--out run --config deep.json", "deep.json: column 42: nested more than 32 deep");
  expect_refused("--out run --config no.json --preset tiny",
                 "--preset: cannot be combined with --config no.json");
  write("config.json", R"({"something": "else"})");
  expect_refused("--out . "s + kSmall, R"("something" is not a setting)");
  expect_refused("--out run --text text --preset huge", "must be one of tiny, small");
  expect_refused("--out run --text text --norm batch", "must be one of layer, rms");
  expect_refused("--out run --text text --heads 5", "5 heads do not divide the width of 192");
  expect_refused("--out run --text text --steps -1", "--steps");
  expect_refused("--out text "s + kSmall, "text");
  expect_refused("--out run --text text --width 60000 --heads 10 --layers 1000", "of memory, and");
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(TrainCommandTest, RefusesWhatDoesNotGoOnWithTheRun) {
  ASSERT_EQ(run("train --out run --steps 5 "s + kSmall).status, 0);
  expect_refused("--out run "s + kSmall, "use --resume to continue");
  expect_refused("--out run --resume --width 32", "width is 32, but the run began with 16");
  write("other", std::string(2000, 'x'));
  expect_refused("--out run --resume --text other", "trained on a different text");
  expect_refused("--out run --resume --steps 3", "steps is 3, but the run has made 5 already");
  write("wide.json", R"({"width": 32})");
  expect_refused("--out run --resume --config wide.json", "width is 32, but the run began with 16");
  EXPECT_EQ(run("train --out run --resume --steps 8 --config run/config.json").status, 0);
  const Result done = run("train --out run --resume");
  EXPECT_THAT(done.out, HasSubstr("All steps were already done."));
  EXPECT_THAT(done.err, IsEmpty());

  const std::string whole = checkpoint("run");
  io::write_files({{files("run").checkpoint, whole.substr(0, whole.size() / 2)}});
  expect_refused("--out run --resume", "checkpoint.safetensors: ");
  std::string corrupt = whole;
  corrupt[whole.size() - 100] ^= 1;
  io::write_files({{files("run").checkpoint, corrupt}});
  expect_refused("--out run --resume", "is corrupt");
  EXPECT_EQ(run("generate run").status, 2);
  EXPECT_THAT(run("generate run --top-k 257").err, HasSubstr("top-k is 257, must be at most 256"));
  EXPECT_EQ(run("generate nowhere").status, 2);
}

TEST_F(TrainCommandTest, TakesTheMemoryThatItSays) {
  ADDNORM_LONG_TEST();
  const std::string sizes =
      "--layers 2 --width 256 --heads 4 --context 256 --batch 16 --warm-up 1 ";
  for (const char* more : {"", "--dtype bf16 --placement sandwich", "--activation swiglu"}) {
    const std::string flags = sizes + more + " --steps 2 --validation-batches 1 --text text ";
    std::FILE* out = std::tmpfile();
    const pid_t child =
        start("train --out run" + std::to_string(std::strlen(more)) + ' ' + flags, out);
    rusage used{};
    int status = 0;
    ASSERT_EQ(::wait4(child, &status, 0, &used), child);
    EXPECT_EQ(status, 0);
    std::fclose(out);
    const run::RunConfig config =
        run::read_config(files("run" + std::to_string(std::strlen(more))).config);
    const double expected = static_cast<double>(run::estimate_memory(config).total());
    const double peak = 1024.0 * static_cast<double>(used.ru_maxrss);
    EXPECT_GT(peak, 0.9 * expected) << more;
    EXPECT_LT(peak, 1.1 * expected + 80e6) << more;  // program, libraries, oneDNN's buffers
  }
}

TEST_F(TrainCommandTest, AFullDiskLeavesTheLastCheckpoint) {
  ASSERT_EQ(run("train --out run --steps 5 "s + kSmall).status, 0);
  const std::string before = checkpoint("run");
  const pid_t child = ::fork();
  if (child == 0) {  // files larger than half a checkpoint cannot be written
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{before.size() / 2, before.size() / 2};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::FILE* err = std::fopen((folder_ / "err").c_str(), "w");
    become_program(folder_, split("train --out run --resume --steps 9 --profile-every 0"), 1,
                   ::fileno(err));
  }
  EXPECT_EQ(wait_for(child), 2);
  EXPECT_THAT(io::read_file((folder_ / "err").string()),
              HasSubstr("checkpoint.safetensors: cannot be written"));
  EXPECT_TRUE(checkpoint("run") == before);
  EXPECT_EQ(run("train --out run --resume").status, 0);
}

// A user who may write to a run's folder must not redirect the trainer's writes to other files.
TEST_F(TrainCommandTest, FollowsNoLinkThatIsPlanted) {
  write("secret", "not a run's");
  for (const char* name : {"metrics.jsonl", "profile.jsonl", "config.json", "report.html",
                           "checkpoint.safetensors", "best.safetensors", ".lock"}) {
    SCOPED_TRACE(name);
    fs::create_directory(folder_ / "run");
    fs::create_symlink("../secret", folder_ / "run" / name);
    expect_refused("--out run --steps 2 "s + kSmall, "run");
    EXPECT_EQ(io::read_file(folder_ / "secret"), "not a run's");
    fs::remove_all(folder_ / "run");
  }
}

}  // namespace
}  // namespace addnorm
