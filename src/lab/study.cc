#include "lab/study.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "addnorm/nn/placement.h"
#include "base/parallel.h"
#include "base/require.h"
#include "train/trainer.h"

namespace addnorm::lab {

bool StudyRun::diverged() const {
  return !std::isfinite(validation_loss);
}

void check_study(const StudyOptions& options) {
  auto at_least_one = [](const char* name, std::size_t value) {
    constexpr std::size_t kMost = 1'000'000;  // so that no product overflows
    require(value >= 1 && value <= kMost, "{} is {}, must be from 1 to {}", name, value, kMost);
  };
  at_least_one("layers", options.layers);
  at_least_one("width", options.width);
  at_least_one("heads", options.heads);
  at_least_one("context", options.context);
  at_least_one("batch", options.batch);
  at_least_one("steps", options.steps);
  at_least_one("seeds", options.seeds);
  at_least_one("warm-up", options.warm_up);
  require(options.warm_up <= options.steps, "warm-up is {} steps, must be at most all {} steps",
          options.warm_up, options.steps);
  constexpr std::size_t kLargest = 100'000'000;  // 1.2e9 weights, 20 GB with their optimizer
  require(options.layers * options.width * options.width <= kLargest,
          "{} layers of width {} are too large a model, layers × width² must be at most {}",
          options.layers, options.width, kLargest);
  require(options.width % options.heads == 0, "{} heads do not divide the width of {}",
          options.heads, options.width);
  require(std::isfinite(options.learning_rate) && options.learning_rate > 0,
          "the learning rate is {}, must be above 0", options.learning_rate);
  require(std::isfinite(options.norm.epsilon) && options.norm.epsilon >= 0,
          "epsilon is {}, must be a finite number that is not negative", options.norm.epsilon);
  require(options.dropout >= 0 && options.dropout < 1,
          "dropout is {}, must be at least 0 and below 1", options.dropout);
  require(!options.placements.empty(), "there is no placement to study");
  for (const std::string& placement : options.placements) {
    parse_placements(placement, options.layers);
  }
  const std::set<std::string> different(options.placements.begin(), options.placements.end());
  require(different.size() == options.placements.size(), "a placement is named twice in {}",
          fmt::join(options.placements, ","));
}

namespace {

DecoderOptions decoder_options(const StudyOptions& options, const std::string& placement) {
  return {.block = {.d_model = options.width,
                    .n_heads = options.heads,
                    .d_ff = 4 * options.width,
                    .feed_forward = options.feed_forward,
                    .norm = options.norm,
                    .dropout = options.dropout},
          .placements = parse_placements(placement, options.layers),
          .context = options.context};
}

/// Builds the run's model, gives it its first weights and measures it.
struct Subject {
  Decoder<float> decoder;
  Trainer<float> trainer;

  Subject(const StudyOptions& options, const ByteText& text, StudyRun& run)
      : decoder(drawn(options, run)),
        trainer(decoder, text,
                {.batch = options.batch,
                 .learning_rate = {options.learning_rate, run.warm_up},
                 .seed = run.seed + 1}) {
    probe::Profiler<float> profiler(options.context);
    trainer.probe(profiler);
    run.initial = profiler.entries();
    run.parameters = count_parameters(decoder.parameters());
  }

  static Decoder<float> drawn(const StudyOptions& options, const StudyRun& run) {
    Decoder<float> decoder(decoder_options(options, run.placement));
    TorchGenerator generator(run.seed);
    initialize(decoder, run.initialization, generator);
    return decoder;
  }
};

/// Fills in the run; calls on_step after each step, and for those that a diverged run leaves out.
void train(const StudyOptions& options, const ByteText& text, StudyRun& run,
           const std::function<void()>& on_step) {
  Subject subject(options, text, run);
  run.losses.reserve(options.steps);
  run.validation_loss = subject.trainer.run(options.steps, [&](double loss) {
    run.losses.push_back(loss);
    on_step();
  });
  for (std::size_t left = run.losses.size(); left < options.steps; ++left) on_step();
}

/// Empty runs for everything that is to be measured.
void plan(Study& study) {
  const StudyOptions& o = study.options;
  for (const std::string& placement : o.placements) {
    for (std::uint64_t s = 0; s < o.seeds; ++s) {
      StudyRun run{.placement = placement, .initialization = o.initialization, .seed = o.seed + s};
      study.runs.push_back(run);
      run.warm_up = o.warm_up;
      study.runs.push_back(run);
      run.warm_up = 0;
      for (const Initialization other : kInitializations) {
        if (other == o.initialization) continue;
        run.initialization = other;
        study.other_initializations.push_back(run);
      }
    }
  }
}

}  // namespace

Study run_study(const StudyOptions& options, const ByteText& text,
                const std::function<void(std::size_t, std::size_t)>& progress) {
  check_study(options);
  Study study{.options = options, .text_bytes = text.size(), .unigram_loss = text.unigram_loss()};
  plan(study);
  const std::size_t all = study.runs.size() * options.steps;
  std::size_t done = 0;
  std::mutex mutex;
  auto on_step = [&] {
    const std::lock_guard lock(mutex);
    progress(++done, all);
  };
  parallel_jobs(study.runs.size(),
                [&](std::size_t i) { train(options, text, study.runs[i], on_step); });
  parallel_jobs(study.other_initializations.size(),
                [&](std::size_t i) { Subject(options, text, study.other_initializations[i]); });
  return study;
}

}  // namespace addnorm::lab
