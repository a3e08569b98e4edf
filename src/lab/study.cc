#include "lab/study.h"

#include <fmt/ranges.h>

#include <mutex>
#include <set>

#include "base/parallel.h"
#include "base/require.h"
#include "train/trainer.h"

namespace addnorm::lab {

bool StudyRun::diverged() const {
  return !std::isfinite(validation_loss);
}

namespace {

/// Returns the study's settings with this placement. The number of lanes applies only to placements
/// that leave it free.
run::RunConfig with_placement(run::RunConfig config, const std::string& placement) {
  config.placement = placement;
  const LaneForm lanes = parse_placements(placement, config.layers).front().attention.lanes;
  if (lanes.least == lanes.most) config.lanes = 0;
  return config;
}

}  // namespace

void check_study(const StudyOptions& options) {
  constexpr std::uint64_t kMostSeeds = 1'000'000;  // so that no product overflows
  require(options.seeds >= 1 && options.seeds <= kMostSeeds, "seeds is {}, must be from 1 to {}",
          options.seeds, kMostSeeds);
  require(!options.placements.empty(), "there is no placement to study");
  const run::RunConfig& config = options.config;
  for (const std::string& placement : options.placements) {
    run::check(with_placement(config, placement));
  }
  constexpr std::uint64_t kLargest = 100'000'000;  // 1.2e9 weights, 20 GB with their optimizer
  const std::uint64_t quarter = std::max<std::uint64_t>(config.width, config.feed_forward / 4);
  require(config.layers * config.width * quarter <= kLargest,
          "the model is too large: {} layers of width {} with a feed-forward of {}; layers × width "
          "× ff/4 must be at most {}",
          config.layers, config.width, 4 * quarter, kLargest);
  const std::set<std::string> different(options.placements.begin(), options.placements.end());
  require(different.size() == options.placements.size(), "a placement is named twice in {}",
          fmt::join(options.placements, ","));
}

namespace {

/// The settings of one model and its training.
run::RunConfig config_of(const StudyOptions& options, const StudyRun& run) {
  run::RunConfig config = with_placement(options.config, run.placement);
  config.initialization = to_string(run.initialization);
  config.warm_up = run.warm_up;
  config.seed = run.seed;
  return config;
}

/// Builds the run's model, draws its initial weights and measures it.
struct Subject {
  Decoder<float> decoder;
  train::Trainer<float> trainer;

  Subject(const run::RunConfig& config, const train::ByteText& text, StudyRun& run)
      : decoder(run::draw_decoder<float>(config)),
        trainer(decoder, text, run::trainer_options(config)) {
    probe::Profiler<float> profiler(config.context);
    trainer.probe(profiler);
    run.initial = profiler.entries();
    run.parameters = count_parameters(decoder.parameters());
  }
};

/// Trains the run; calls on_step after each step, also for the steps that a diverged run omits.
void train(const StudyOptions& options, const train::ByteText& text, StudyRun& run,
           const std::function<void()>& on_step) {
  const std::size_t steps = options.config.steps;
  Subject subject(config_of(options, run), text, run);
  run.losses.reserve(steps);
  run.validation_loss = subject.trainer.run(steps, [&](double loss) {
    run.losses.push_back(loss);
    on_step();
  });
  for (std::size_t left = run.losses.size(); left < steps; ++left) on_step();
}

/// Adds an empty run for each model to measure.
void plan(Study& study) {
  const StudyOptions& o = study.options;
  for (const std::string& placement : o.placements) {
    for (std::uint64_t s = 0; s < o.seeds; ++s) {
      StudyRun run{
          .placement = placement, .initialization = o.initialization(), .seed = o.config.seed + s};
      study.runs.push_back(run);
      run.warm_up = o.warm_up();
      study.runs.push_back(run);
      run.warm_up = 0;
      for (const Initialization other : kInitializations) {
        if (other == o.initialization()) continue;
        run.initialization = other;
        study.other_initializations.push_back(run);
      }
    }
  }
}

}  // namespace

Study run_study(const StudyOptions& options, const train::ByteText& text,
                const std::function<void(std::size_t, std::size_t)>& progress) {
  check_study(options);
  Study study{.options = options, .text_bytes = text.size(), .unigram_loss = text.unigram_loss()};
  plan(study);
  const std::size_t all = study.runs.size() * options.config.steps;
  std::size_t done = 0;
  std::mutex mutex;
  auto on_step = [&] {
    const std::lock_guard lock(mutex);
    progress(++done, all);
  };
  parallel_jobs(study.runs.size(),
                [&](std::size_t i) { train(options, text, study.runs[i], on_step); });
  parallel_jobs(study.other_initializations.size(), [&](std::size_t i) {
    StudyRun& run = study.other_initializations[i];
    Subject(config_of(options, run), text, run);
  });
  return study;
}

}  // namespace addnorm::lab
