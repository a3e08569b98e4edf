// Tests of training under mpirun: the files of several processes, and their exit.

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/file.h"
#include "io/temporary_folder.h"
#include "run/checkpoint.h"
#include "run/metrics.h"
#include "run/run_folder.h"

namespace addnorm {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::SizeIs;

struct Result {
  int status = -1;  // 128 + n: ended by signal n
  std::string out;
  std::string err;
};

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

class MpiTest : public ::testing::Test {
 protected:
  MpiTest() {
    ::setenv("OMP_NUM_THREADS", "1", 1);
    std::ofstream text(folder_ / "text");
    for (int i = 0; i < 600; ++i) text << "sentence " << i * i % 97 << " of this text. ";
  }

  run::RunFiles files(const std::string& run) const {
    return run::RunFiles((folder_ / run).string());
  }

  std::string train(const std::string& run, const std::string& more) const {
    return fmt::format("{} train --out {} {}", ADDNORM_PROGRAM, run, more);
  }
  std::string fresh(const std::string& run, const std::string& more = "") const {
    return train(run,
                 "--text text --preset tiny --layers 2 --width 32 --context 16 --batch 12 "
                 "--dropout 0.1 --warm-up 5 --decay none --checkpoint-every 5 " +
                     more);
  }
  static std::string on(std::size_t processes, const std::string& command) {
    return fmt::format("{} --allow-run-as-root --oversubscribe -n {} {}", ADDNORM_MPIRUN, processes,
                       command);
  }

  pid_t start(const std::string& command) const {
    const pid_t child = ::fork();
    if (child != 0) return child;
    const std::string line = "exec " + command + " >out.txt 2>err.txt";
    if (::chdir(folder_.c_str()) == 0) ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    std::_Exit(99);
  }
  Result wait_for(pid_t child) const {
    int status = 0;
    ::waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            io::read_file((folder_ / "out.txt").string()),
            io::read_file((folder_ / "err.txt").string())};
  }
  Result run(const std::string& command) const { return wait_for(start(command)); }

  /// Starts a run of a million steps on two processes, and calls act(mpirun, second process) during
  /// it. Returns how all ended, which must be before the last step.
  Result interrupted(const std::string& run, const std::function<void(pid_t, pid_t)>& act) const {
    constexpr std::size_t kSteps = 1'000'000;
    const pid_t mpirun = start(on(2, fresh(run, fmt::format("--steps {}", kSteps))));
    for (int tries = 0; tries < 1500; ++tries) {
      if (run::read_metrics(files(run).metrics).steps.size() >= 12) break;
      std::this_thread::sleep_for(20ms);
    }
    std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", mpirun));
    pid_t first = 0;
    pid_t second = 0;
    children >> first >> second;
    if (second <= 0) {
      ADD_FAILURE() << "there is no second process";
      return wait_for(mpirun);
    }
    act(mpirun, second);
    const Result result = wait_for(mpirun);
    EXPECT_THAT(run::read_metrics(files(run).metrics).steps, SizeIs(Lt(kSteps)));
    EXPECT_TRUE(fs::exists(files(run).checkpoint));
    return result;
  }

  void expect_same_curve(const std::string& a, const std::string& b, double tolerance) const {
    const run::Metrics one = run::read_metrics(files(a).metrics);
    const run::Metrics other = run::read_metrics(files(b).metrics);
    ASSERT_EQ(one.steps.size(), other.steps.size());
    for (std::size_t i = 0; i < one.steps.size(); ++i) {
      EXPECT_NEAR(one.steps[i].loss, other.steps[i].loss, tolerance * one.steps[i].loss) << i;
      EXPECT_EQ(one.steps[i].tokens, other.steps[i].tokens);
    }
    ASSERT_THAT(other.validations, SizeIs(one.validations.size()));
    EXPECT_NEAR(one.validations.back().loss, other.validations.back().loss,
                tolerance * one.validations.back().loss);
  }

  io::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(MpiTest, GoesAsOneProcessDoesAndToTheSameBitsEveryTime) {
  const std::string how = "--steps 20 --accumulate 2 --clip 0.5 ";
  ASSERT_EQ(run(fresh("alone", how)).status, 0);
  ASSERT_EQ(run(on(2, fresh("two", how))).status, 0);
  ASSERT_EQ(run(on(2, fresh("again", how))).status, 0);
  ASSERT_EQ(run(on(3, fresh("three", how))).status, 0);
  expect_same_curve("alone", "two", 1e-5);
  expect_same_curve("alone", "three", 1e-5);
  EXPECT_TRUE(io::read_file(files("two").checkpoint) == io::read_file(files("again").checkpoint));
}

TEST_F(MpiTest, GoesAsOneProcessDoesInBFloat16) {
  ASSERT_EQ(run(fresh("alone", "--steps 20 --dtype bf16")).status, 0);
  const Result two = run(on(2, fresh("two", "--steps 20 --dtype bf16")));
  EXPECT_EQ(two.status, 0);
  EXPECT_THAT(two.out, HasSubstr("each of 2 processes"));
  EXPECT_EQ(occurrences(two.out, "20 steps: "), 1) << two.out;
  expect_same_curve("alone", "two", 1e-3);
}

TEST_F(MpiTest, GoesAsOneProcessDoesWithLanes) {
  for (const std::string placement : {"altup", "mhc", "mudd"}) {
    SCOPED_TRACE(placement);
    const std::string how = "--steps 20 --placement " + placement;
    ASSERT_EQ(run(fresh(placement + "-alone", how)).status, 0);
    ASSERT_EQ(run(on(2, fresh(placement + "-two", how))).status, 0);
    expect_same_curve(placement + "-alone", placement + "-two", 1e-5);
  }
}

TEST_F(MpiTest, AKilledProcessEndsTheOthersAndTheRunGoesOn) {
  const Result killed = interrupted("run", [](pid_t, pid_t second) { ::kill(second, SIGKILL); });
  EXPECT_NE(killed.status, 0);
  const std::size_t steps = run::read_metrics(files("run").metrics).steps.size() + 5;
  const std::string until = fmt::format(" --steps {}", steps);
  const Result resumed = run(on(2, train("run", "--resume" + until)));
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  ASSERT_EQ(run(on(2, fresh("whole", until))).status, 0);
  EXPECT_TRUE(io::read_file(files("run").checkpoint) == io::read_file(files("whole").checkpoint));
}

TEST_F(MpiTest, GoesOnWithAnotherNumberOfProcesses) {
  ASSERT_EQ(run(fresh("whole", "--steps 30")).status, 0);
  ASSERT_EQ(run(on(2, fresh("run", "--steps 10"))).status, 0);
  ASSERT_EQ(run(train("run", "--resume --steps 20")).status, 0);
  ASSERT_EQ(run(on(3, train("run", "--resume --steps 30"))).status, 0);
  const run::Metrics parts = run::read_metrics(files("run").metrics);
  const run::Metrics whole = run::read_metrics(files("whole").metrics);
  ASSERT_EQ(parts.steps.size(), whole.steps.size());
  for (std::size_t i = 0; i < parts.steps.size(); ++i) {
    EXPECT_NEAR(parts.steps[i].loss, whole.steps[i].loss, 1e-5 * whole.steps[i].loss) << i;
  }
}

TEST_F(MpiTest, AStopRequestToAnyProcessLeavesACheckpoint) {
  const Result stopped = interrupted("run", [](pid_t, pid_t second) { ::kill(second, SIGTERM); });
  EXPECT_EQ(stopped.status, 0) << stopped.err;
  const std::size_t steps = run::read_metrics(files("run").metrics).steps.size();
  EXPECT_THAT(stopped.out, HasSubstr(fmt::format("Stopped after step {}, with", steps)));
}

TEST_F(MpiTest, AStopRequestByWayOfMpirunLeavesACheckpoint) {
  const Result stopped = interrupted("run", [](pid_t mpirun, pid_t) { ::kill(mpirun, SIGUSR1); });
  EXPECT_EQ(stopped.status, 0) << stopped.err;
  EXPECT_THAT(stopped.out, HasSubstr("Stopped after step"));
}

TEST_F(MpiTest, InterruptingMpirunLeavesACheckpoint) {
  interrupted("run", [](pid_t mpirun, pid_t) { ::kill(mpirun, SIGINT); });
  const std::size_t steps = run::read_metrics(files("run").metrics).steps.size();
  EXPECT_EQ(run::Checkpoint(files("run").checkpoint).state().steps, steps);
  const std::string until = fmt::format(" --steps {}", steps + 1);
  const Result resumed = run(on(2, train("run", "--resume" + until)));
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(run::read_metrics(files("run").metrics).steps, SizeIs(steps + 1));
}

TEST_F(MpiTest, ReportsBadInputOnce) {
  for (const auto& [command, message] :
       {std::pair{fresh("run", "--steps many"), "'many' is not a whole number"},
        {fresh("run", "--steps 20 --heads 5"), "5 heads do not divide"},
        {fresh("run", "--steps 20 --norm batch"), "norm: \"batch\" is unknown"}}) {
    const Result bad = run(on(2, command));
    EXPECT_NE(bad.status, 0) << command;
    EXPECT_EQ(occurrences(bad.err, message), 1) << bad.err;
    EXPECT_FALSE(fs::exists(folder_ / "run"));
  }
  const Result odd = run(on(5, fresh("run", "--steps 20")));
  EXPECT_NE(odd.status, 0);
  EXPECT_EQ(occurrences(odd.err, "batch is 12, must be a multiple of 5"), 1) << odd.err;
}

TEST_F(MpiTest, AnErrorOfOneProcessEndsAll) {
  // a folder with the name of the first process's file
  fs::create_directories(files("run").metrics);
  const Result failed = run(on(2, fresh("run", "--steps 1000000")));
  EXPECT_NE(failed.status, 0);
  EXPECT_EQ(occurrences(failed.err, "metrics.jsonl"), 1) << failed.err;
}

TEST_F(MpiTest, SaysOnceWhatIsNotFinite) {
  const Result stopped = run(on(2, fresh("run", "--steps 20 --lr 1e30")));
  EXPECT_NE(stopped.status, 0);
  EXPECT_EQ(occurrences(stopped.out, "is not finite: first in"), 1) << stopped.out;
  EXPECT_THAT(run::read_metrics(files("run").metrics).stopped,
              HasSubstr("is not finite: first in"));
}

}  // namespace
}  // namespace addnorm
