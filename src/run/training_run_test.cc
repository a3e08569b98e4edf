#include "run/training_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "addnorm/error.h"
#include "io/file.h"
#include "io/profile.h"
#include "io/temporary_folder.h"
#include "run/checkpoint.h"

namespace addnorm::run {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string some_text(int sentences = 200) {
  std::string text;
  for (int i = 0; i < sentences; ++i) {
    text += "sentence " + std::to_string(i * i % 97) + " of this text. ";
  }
  return text;
}

class TrainingRunTest : public ::testing::Test {
 protected:
  RunFiles files(const std::string& name) const {
    fs::create_directories(folder_ / name);
    return RunFiles((folder_ / name).string());
  }
  RunOutcome run(const std::string& name, const RunEvents& events = {}) const {
    return run_training(config_, files(name), train::ByteText(text_, config_.context), events);
  }

  void expect_same_bits_after_a_break(const std::string& what);

  io::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  std::string text_ = some_text();
  RunConfig config_{.layers = 2,
                    .width = 16,
                    .heads = 2,
                    .context = 8,
                    .dropout = 0.1,
                    .batch = 2,
                    .accumulate = 2,
                    .steps = 12,
                    .learning_rate = 1e-2,
                    .warm_up = 3,
                    .validate_every = 4,
                    .validation_batches = 2,
                    .profile_every = 3,
                    .checkpoint_every = 5};
};

/// Returns the metrics without times.
std::string without_seconds(const std::string& file) {
  std::string kept;
  for (const StepMetrics& m : read_metrics(file).steps) {
    kept +=
        fmt::format("{} {} {} {} {}\n", m.step, m.loss, m.gradient_norm, m.learning_rate, m.tokens);
  }
  for (const Validation& v : read_metrics(file).validations) {
    kept += fmt::format("{} {}\n", v.step, v.loss);
  }
  return kept;
}

/// Checks, in every type, that the run learns, and that an interruption does not change a bit.
void TrainingRunTest::expect_same_bits_after_a_break(const std::string& what) {
  for (const char* dtype : {"f32", "bf16"}) {
    SCOPED_TRACE(what + ' ' + dtype);
    config_.dtype = dtype;
    const std::string name = what + dtype;
    std::size_t steps = 0;
    EXPECT_EQ(run(name).end, RunOutcome::End::kFinished);
    run(name + "-broken", {.wants_stop = [&] { return ++steps == 7; }});
    run(name + "-broken");
    const RunFiles whole = files(name), broken = files(name + "-broken");
    EXPECT_TRUE(io::read_file(whole.checkpoint) == io::read_file(broken.checkpoint));
    EXPECT_EQ(without_seconds(whole.metrics), without_seconds(broken.metrics));
    const std::vector<StepMetrics> trained = read_metrics(whole.metrics).steps;
    EXPECT_LT(trained.back().loss, trained.front().loss);
  }
}

TEST_F(TrainingRunTest, ABreakAnywhereLeavesTheSameBits) {
  for (const char* dtype : {"f32", "bf16"}) {
    config_.dtype = dtype;
    const std::string whole = std::string(dtype) + "-whole";
    EXPECT_EQ(run(whole).end, RunOutcome::End::kFinished);
    for (const std::size_t stop : {1, 5, 7, 11}) {
      const std::string broken = std::string(dtype) + std::to_string(stop);
      std::size_t steps = 0;
      const RunOutcome first = run(broken, {.wants_stop = [&] { return ++steps == stop; }});
      EXPECT_EQ(first.end, RunOutcome::End::kStopped);
      EXPECT_EQ(first.steps, stop);
      EXPECT_EQ(run(broken).end, RunOutcome::End::kFinished);
      const RunFiles a = files(whole);
      const RunFiles b = files(broken);
      EXPECT_TRUE(io::read_file(a.checkpoint) == io::read_file(b.checkpoint)) << dtype << stop;
      EXPECT_TRUE(io::read_file(a.best) == io::read_file(b.best)) << dtype << stop;
      EXPECT_EQ(io::read_file(a.profile), io::read_file(b.profile)) << dtype << stop;
      EXPECT_EQ(without_seconds(a.metrics), without_seconds(b.metrics)) << dtype << stop;
    }
  }
}

/// Tests each norm that a stack can have, in every type.
TEST_F(TrainingRunTest, ABreakLeavesTheSameBitsWithEveryNorm) {
  for (const auto& [norm, affine] :
       {std::pair{"dyt", "gamma-beta"}, {"derf", "gamma-beta"}, {"rms", "scalar-gamma"}}) {
    config_.norm = norm, config_.affine = affine;
    expect_same_bits_after_a_break(norm);
  }
}

TEST_F(TrainingRunTest, ABreakLeavesTheSameBitsWithLanes) {
  for (const char* placement : {"altup", "mhc", "mudd", "attention-residuals"}) {
    config_.placement = placement;
    expect_same_bits_after_a_break(placement);
  }
}

TEST_F(TrainingRunTest, WhatCameAfterTheCheckpointIsForgotten) {
  run("whole");
  struct Killed {};
  std::size_t steps = 0;
  const auto die = [&](const StepMetrics&) {
    if (++steps == 9) throw Killed();
  };
  EXPECT_THROW(run("killed", {.on_step = die}), Killed);
  std::ofstream(files("killed").metrics, std::ios::app) << R"({"step":10,"lo)";
  run("killed");
  EXPECT_TRUE(io::read_file(files("whole").checkpoint) ==
              io::read_file(files("killed").checkpoint));
  EXPECT_EQ(without_seconds(files("whole").metrics), without_seconds(files("killed").metrics));
  EXPECT_EQ(io::read_file(files("whole").profile), io::read_file(files("killed").profile));
}

// After a power failure a file may have lost its end, or have zeros in place of it.
TEST_F(TrainingRunTest, ContinuesFromLogsThatLostTheirEnd) {
  config_.profile_every = 2;
  struct Killed {};
  const auto die = [&](const StepMetrics& m) {
    if (m.step == 9) throw Killed();
  };
  for (const double kept : {0.0, 0.01, 0.3, 0.8}) {
    for (const bool has_zeros : {false, true}) {
      const std::string name = fmt::format("{} {}", kept, has_zeros);
      SCOPED_TRACE(name);
      EXPECT_THROW(run(name, {.on_step = die}), Killed);
      for (const std::string& log : {files(name).metrics, files(name).profile}) {
        std::string bytes = io::read_file(log);
        const std::size_t size = bytes.size();
        bytes.resize(static_cast<std::size_t>(kept * static_cast<double>(size)));
        if (has_zeros) bytes.resize(size);
        std::ofstream(log, std::ios::binary) << bytes;
      }
      std::size_t missing = 0;
      run(name, {.on_missing_steps = [&](std::size_t count) { missing = count; }});
      EXPECT_EQ(missing > 0, kept < 0.5);
      const std::string& profile = files(name).profile;
      EXPECT_EQ(io::parse_profiles(io::read_file(profile), profile).size(), 1u);
      EXPECT_EQ(read_metrics(files(name).metrics).steps.back().step, config_.steps);
    }
  }
}

TEST_F(TrainingRunTest, MoreStepsGoOnFromTheLast) {
  config_.decay = "none";
  config_.steps = 7;
  run("more");
  config_.steps = 12;
  run("more");
  run("whole");
  EXPECT_TRUE(io::read_file(files("more").checkpoint) == io::read_file(files("whole").checkpoint));
}

TEST_F(TrainingRunTest, KeepsTheParametersOfTheBestValidation) {
  config_.learning_rate = 1;  // damages them, once it is reached
  config_.warm_up = config_.steps;
  config_.dropout = 0;
  config_.validate_every = 1;
  run("run");
  const std::vector<Validation> all = read_metrics(files("run").metrics).validations;
  const Validation best = *std::ranges::min_element(all, {}, &Validation::loss);
  ASSERT_LT(best.loss, all.back().loss);
  const Checkpoint checkpoint(files("run").best);
  EXPECT_EQ(checkpoint.state().steps, best.step);

  Decoder<float> decoder(decoder_options(config_));
  const train::ByteText text(text_, config_.context);
  train::Trainer<float> trainer(decoder, text, trainer_options(config_));
  const auto state = trainer.state();
  checkpoint.restore(std::span(state).first(decoder.parameters().size()));
  EXPECT_EQ(trainer.validate(config_.validation_batches), best.loss);
}

TEST_F(TrainingRunTest, SaysWhereAValueWasFirstNotFinite) {
  config_.dropout = 0;
  run("broken", {.wants_stop = [] { return true; }});
  const RunFiles files = this->files("broken");
  const Checkpoint before(files.checkpoint);
  Decoder<float> decoder(decoder_options(config_));
  train::ByteText text(text_, config_.context);
  train::Trainer<float> trainer(decoder, text, trainer_options(config_));
  before.restore(trainer.state());
  decoder.stack().blocks()[1].feed_forward().down().weight().value(3, 4) = INFINITY;
  write_checkpoint(files.checkpoint, before.state(), trainer.state());
  const std::string kept = io::read_file(files.checkpoint);

  const RunOutcome outcome = run("broken");
  EXPECT_EQ(outcome.end, RunOutcome::End::kNotFinite);
  EXPECT_EQ(outcome.problem,
            "the loss of step 2 is not finite: first in forward at layer 1, feed_forward, branch");
  EXPECT_EQ(read_metrics(files.metrics).stopped, outcome.problem);
  EXPECT_TRUE(io::read_file(files.checkpoint) == kept);
}

TEST_F(TrainingRunTest, RefusesAnotherTextOrConfiguration) {
  run("run");
  const std::string kept = io::read_file(files("run").checkpoint);
  text_ += " ";
  EXPECT_THAT([&] { run("run"); }, ThrowsMessage<Error>(HasSubstr("a different text")));
  text_.pop_back();
  config_.width = 32;
  EXPECT_THAT([&] { run("run"); },
              ThrowsMessage<Error>(HasSubstr("width is 32, but the run began with 16")));
  EXPECT_TRUE(io::read_file(files("run").checkpoint) == kept);
}

TEST_F(TrainingRunTest, LearnsAndProfilesEveryLayer) {
  config_.steps = 150;
  config_.dropout = 0;
  const RunOutcome outcome = run("run");
  EXPECT_LT(outcome.validation_loss, 2.5);  // bytes of equal frequency: 5.5
  const Metrics metrics = read_metrics(files("run").metrics);
  EXPECT_EQ(metrics.steps.size(), 150);
  EXPECT_EQ(metrics.validations.back().loss, outcome.validation_loss);
  const std::string profile = files("run").profile;
  const std::vector<io::Profile> profiles = io::parse_profiles(io::read_file(profile), profile);
  ASSERT_EQ(profiles.size(), 1);
  EXPECT_EQ(profiles[0].model.d_model, 16);
  EXPECT_EQ(profiles[0].entries.back().step, 150);
}

TEST_F(TrainingRunTest, TellsOfEveryStepAndValidation) {
  std::vector<std::size_t> steps, validations;
  const RunEvents events{
      .on_step = [&](const StepMetrics& m) { steps.push_back(m.step); },
      .on_validation = [&](const Validation& v) { validations.push_back(v.step); }};
  config_.steps = 9;
  run("run", events);
  EXPECT_EQ(steps, (std::vector<std::size_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(validations, (std::vector<std::size_t>{4, 8, 9}));
  config_.steps = 3;
  EXPECT_THAT([&] { run("run"); },
              ThrowsMessage<Error>(HasSubstr("steps is 3, but the run has made 9 already")));
}

TEST_F(TrainingRunTest, ProfilesWhereItShouldOrNotAtAll) {
  config_.profile_every = 0;
  run("none");
  EXPECT_FALSE(fs::exists(files("none").profile));
  config_.profile_every = 5;
  run("some");
  fs::remove(files("some").profile);
  config_.steps = 15;
  run("some");
  EXPECT_EQ(io::parse_profiles(io::read_file(files("some").profile), "").size(), 1);
}

TEST_F(TrainingRunTest, AFolderBelongsToOneRun) {
  const std::string folder = files("run").folder;
  const fs::path left = folder_ / "run" / ".addnorm-0123456789abcdef.tmp";
  std::ofstream(left) << "half a checkpoint";
  {
    const RunLock lock(folder);
    EXPECT_FALSE(fs::exists(left));
    EXPECT_THAT([&] { RunLock again(folder); },
                ThrowsMessage<Error>(HasSubstr("in use by another process")));
  }
  EXPECT_NO_THROW(RunLock{folder});
}

}  // namespace
}  // namespace addnorm::run
