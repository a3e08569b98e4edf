#include "lab/study.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "base/require.h"
#include "nn/placement.h"
#include "train/trainer.h"

namespace addnorm {

bool StudyRun::diverged() const {
  return !std::isfinite(validation_loss);
}

void check_study(const StudyOptions& options) {
  auto at_least_one = [](const char* name, std::size_t value) {
    require(value >= 1, "study: {} is {}, must be at least 1", name, value);
  };
  at_least_one("layers", options.layers);
  at_least_one("width", options.width);
  at_least_one("heads", options.heads);
  at_least_one("context", options.context);
  at_least_one("batch", options.batch);
  at_least_one("steps", options.steps);
  at_least_one("seeds", options.seeds);
  require(options.width % options.heads == 0, "study: {} heads do not divide the width of {}",
          options.heads, options.width);
  require(std::isfinite(options.learning_rate) && options.learning_rate > 0,
          "study: the learning rate is {}, must be above 0", options.learning_rate);
  require(std::isfinite(options.norm.epsilon) && options.norm.epsilon >= 0,
          "study: epsilon is {}, must be a finite number that is not negative",
          options.norm.epsilon);
  require(!options.placements.empty(), "study: there is no placement to study");
  for (const std::string& placement : options.placements) {
    parse_placements(placement, options.layers);
  }
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

constexpr std::size_t kValidationBatches = 8;

/// Fills in the run; calls on_step after each step, and for those that a diverged run leaves out.
void train(const StudyOptions& options, const ByteText& text, StudyRun& run,
           const std::function<void()>& on_step) {
  Decoder<float> decoder(decoder_options(options, run.placement));
  TorchGenerator generator(run.seed);
  initialize(decoder, options.initialization, generator);
  Trainer<float> trainer(decoder, text,
                         {.batch = options.batch,
                          .learning_rate = {options.learning_rate, run.warm_up},
                          .seed = run.seed + 1});
  trainer.profile_admin();
  Profiler<float> profiler(options.context);
  trainer.probe(profiler);
  run.initial = profiler.entries();

  run.losses.reserve(options.steps);
  bool finite = true;
  for (std::size_t step = 0; step < options.steps; ++step) {
    if (finite) run.losses.push_back(trainer.step());
    finite = std::isfinite(run.losses.back());
    on_step();
  }
  run.validation_loss = finite ? trainer.validate(kValidationBatches) : std::nan("");
}

}  // namespace

Study run_study(const StudyOptions& options, const ByteText& text,
                const std::function<void(std::size_t, std::size_t)>& progress) {
  check_study(options);
  Study study{.options = options,
              .text_bytes = text.size(),
              .unigram_loss = text.unigram_loss(),
              .parameters = count_parameters(
                  Decoder<float>(decoder_options(options, options.placements[0])).parameters())};
  for (const std::string& placement : options.placements) {
    for (std::size_t s = 0; s < options.seeds; ++s) {
      for (const std::size_t warm_up : {std::size_t{0}, options.warm_up}) {
        study.runs.push_back(
            {.placement = placement, .seed = options.seed + s, .warm_up = warm_up});
      }
    }
  }
  const std::size_t all = study.runs.size() * options.steps;
  std::size_t done = 0;
  auto on_step = [&] {
#pragma omp critical(addnorm_study_progress)
    progress(++done, all);
  };
  parallel_jobs(study.runs.size(),
                [&](std::size_t i) { train(options, text, study.runs[i], on_step); });
  return study;
}

}  // namespace addnorm
