#include "run/training_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/require.h"
#include "io/file.h"
#include "io/json.h"
#include "io/profile.h"
#include "probe/profiler.h"
#include "run/checkpoint.h"
#include "run/not_finite.h"

namespace addnorm::run {
namespace {

using Clock = std::chrono::steady_clock;

bool is_due(std::size_t every, std::size_t step, std::size_t last) {
  return step == last || (every > 0 && step % every == 0);
}

/// Whether the profile's first line is complete and is no entry. A crash of the system may have
/// taken it.
bool has_header(const std::string& profile) {
  std::ifstream lines(profile);
  std::string first;
  std::getline(lines, first);
  const auto header = io::try_parse_json(first);
  return header && !header->contains("step");
}

/// A run in progress, in the type of its branches and products.
template <typename T>
class TrainingRun {
 public:
  TrainingRun(const RunConfig& config, const RunFiles& files, const train::ByteText& text,
              const RunEvents& events, train::Communicator& world);

  RunOutcome run();
  void begin();

 private:
  RunOutcome make_steps();
  void resume();
  void check_agreement();
  void step();
  void validate();
  void profile();
  void save(const std::string& file, std::span<const NamedMatrix<float>> matrices);
  RunOutcome not_finite();
  bool is_writer() const { return world_.rank() == 0; }

  const RunConfig& config_;
  const RunFiles& files_;
  const RunEvents& events_;
  train::Communicator& world_;
  std::uint64_t fingerprint_;
  Decoder<T> decoder_;
  train::Trainer<T> trainer_;
  std::optional<MetricsLog> log_;  // only in the process that writes
  StepMetrics last_;
  Clock::time_point start_;
  std::size_t missing_steps_ = 0;  // before the checkpoint, in the metrics
  double validation_loss_ = std::numeric_limits<double>::quiet_NaN();
  double best_loss_ = std::numeric_limits<double>::infinity();
};

train::TrainerOptions trainer_options(const RunConfig& config, train::Communicator& world) {
  train::TrainerOptions options = trainer_options(config);
  options.world = &world;
  return options;
}

template <typename T>
TrainingRun<T>::TrainingRun(const RunConfig& config, const RunFiles& files,
                            const train::ByteText& text, const RunEvents& events,
                            train::Communicator& world)
    : config_(config),
      files_(files),
      events_(events),
      world_(world),
      fingerprint_(fingerprint(text.bytes())),
      decoder_(draw_decoder<T>(config)),
      trainer_(decoder_, text, trainer_options(config, world)) {
  resume();
  check_agreement();
  if (!is_writer()) return;
  log_.emplace(files.metrics, trainer_.steps());  // restores the folder's state at the checkpoint
  const Metrics before = read_metrics(files.metrics);
  if (!before.steps.empty() && std::isfinite(before.steps.back().seconds)) {
    last_.seconds = before.steps.back().seconds;
  }
  missing_steps_ = trainer_.steps() - std::min(trainer_.steps(), before.steps.size());
  for (const Validation& validation : before.validations) {
    validation_loss_ = validation.loss;
    best_loss_ = std::min(best_loss_, validation.loss);
  }
  if (trainer_.steps() == 0) std::filesystem::remove(files.profile);
  io::write_files({{files.config, to_json(config).dump(2) + "\n"}});
  keep_steps(files.profile, trainer_.steps());
  if (!has_header(files.profile)) std::filesystem::remove(files.profile);
}

/// Resumes from the folder's checkpoint, if there is one.
template <typename T>
void TrainingRun<T>::resume() {
  if (!std::filesystem::exists(files_.checkpoint)) return;
  const Checkpoint checkpoint(files_.checkpoint);
  const RunState& state = checkpoint.state();
  check_unchanged(state.config, config_);
  require(state.text == fingerprint_,
          "{}: was trained on a different text; a run continues with the text that it began with",
          files_.checkpoint);
  require(config_.steps >= state.steps, "steps is {}, but the run has made {} already",
          config_.steps, state.steps);
  checkpoint.restore(trainer_.state());
  trainer_.resume(state.steps);
}

/// Each process reads configuration, text and checkpoint itself.
template <typename T>
void TrainingRun<T>::check_agreement() {
  std::uint64_t mine = fingerprint(to_json(config_).dump(), fingerprint_ + trainer_.steps());
  for (const auto& [name, matrix] : trainer_.state()) {
    const auto bytes = std::as_bytes(matrix->flat());
    mine = fingerprint({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, mine);
  }
  std::vector<std::uint64_t> all(world_.size());
  world_.gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  require(
      std::ranges::all_of(all, [&](std::uint64_t other) { return other == mine; }),
      "the processes do not have the same settings, text and checkpoint; all must read the same "
      "files");
}

template <typename T>
RunOutcome TrainingRun<T>::run() {
  const TimeAccount account;
  RunOutcome outcome = make_steps();
  outcome.seconds = account.seconds();
  return outcome;
}

template <typename T>
void TrainingRun<T>::begin() {
  save(files_.checkpoint, trainer_.state());
}

template <typename T>
RunOutcome TrainingRun<T>::make_steps() {
  start_ = Clock::now() - std::chrono::duration_cast<Clock::duration>(
                              std::chrono::duration<double>(last_.seconds));
  if (missing_steps_ > 0 && events_.on_missing_steps) events_.on_missing_steps(missing_steps_);
  if (trainer_.steps() == 0 && config_.profile_every > 0) profile();
  while (trainer_.steps() < config_.steps) {
    step();
    if (events_.on_step) events_.on_step(last_);
    if (!std::isfinite(last_.loss) || !std::isfinite(last_.gradient_norm)) return not_finite();
    const std::size_t done = trainer_.steps();
    const bool stops = world_.any(events_.wants_stop && events_.wants_stop());
    if (is_due(config_.validate_every, done, config_.steps)) validate();
    if (config_.profile_every > 0 && is_due(config_.profile_every, done, config_.steps)) profile();
    if (stops || is_due(config_.checkpoint_every, done, config_.steps)) {
      save(files_.checkpoint, trainer_.state());
    }
    if (stops && done < config_.steps) {
      return {RunOutcome::End::kStopped, done, validation_loss_};
    }
  }
  return {RunOutcome::End::kFinished, trainer_.steps(), validation_loss_};
}

template <typename T>
void TrainingRun<T>::step() {
  last_.loss = trainer_.step();
  last_.learning_rate = trainer_.learning_rate();
  last_.gradient_norm = trainer_.gradient_norm();
  last_.step = trainer_.steps();
  last_.tokens = last_.step * config_.accumulate * config_.batch * config_.context;
  last_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  if (log_) log_->add(last_);
}

template <typename T>
void TrainingRun<T>::validate() {
  validation_loss_ = trainer_.validate(config_.validation_batches);
  if (validation_loss_ < best_loss_) {
    best_loss_ = validation_loss_;
    const auto state = trainer_.state();  // parameters first
    save(files_.best, std::span(state).first(decoder_.parameters().size()));
  }
  const Validation validation{trainer_.steps(), validation_loss_};
  if (log_) log_->add(validation);
  if (events_.on_validation) events_.on_validation(validation);
}

template <typename T>
void TrainingRun<T>::profile() {
  if (!is_writer()) return;
  probe::Profiler<float> profiler(config_.context, trainer_.steps(), probe::Detail::kFull);
  trainer_.probe(profiler);
  const DecoderOptions& options = decoder_.options();
  const io::ProfileModel model{
      .d_model = options.block.d_model,
      .n_layers = options.placements.size(),
      .n_heads = options.block.n_heads,
      .d_ff = options.block.d_ff,
      .placement = config_.placement,
      .norm = options.block.norm.kind,
      .eps = config_.epsilon,
      .gamma_form = GammaForm::kPlain,
      .initialization = parse<Initialization>("init", config_.initialization),
      .parameters = count_parameters(decoder_.parameters()),
      .seed = config_.seed};
  const bool is_new = !std::filesystem::exists(files_.profile);
  const std::string header = is_new ? io::profile_header(model) : "";
  io::append_file(files_.profile, header + io::profile_lines(profiler.entries()));
}

template <typename T>
void TrainingRun<T>::save(const std::string& file, std::span<const NamedMatrix<float>> matrices) {
  if (!is_writer()) return;
  // The logs must not end before the checkpoint, whatever happens to the machine.
  for (const std::string& log : {files_.metrics, files_.profile}) io::sync_file(log);
  write_checkpoint(file, {.config = config_, .steps = trainer_.steps(), .text = fingerprint_},
                   matrices);
}

template <typename T>
RunOutcome TrainingRun<T>::not_finite() {
  FirstNotFinite first;
  trainer_.repeat_step(first);
  // it may be in another process's windows
  const std::string place = world_.first_text(first.description());
  const std::string what = std::isfinite(last_.loss) ? "gradient" : "loss";
  const std::string problem = fmt::format("the {} of step {} is not finite: {}", what, last_.step,
                                          place.empty() ? "everything before it is finite" : place);
  if (log_) log_->stopped(last_.step, problem);
  return {RunOutcome::End::kNotFinite, last_.step, validation_loss_, problem};
}

}  // namespace

RunOutcome run_training(const RunConfig& config, const RunFiles& files, const train::ByteText& text,
                        const RunEvents& events, train::Communicator& world) {
  check(config, world.size());
  if (config.dtype == "bf16") {
    return TrainingRun<BFloat16>(config, files, text, events, world).run();
  }
  return TrainingRun<float>(config, files, text, events, world).run();
}

void begin_training(const RunConfig& config, const RunFiles& files, const train::ByteText& text) {
  check(config);
  if (config.dtype == "bf16") {
    TrainingRun<BFloat16>(config, files, text, {}, train::one_process()).begin();
  } else {
    TrainingRun<float>(config, files, text, {}, train::one_process()).begin();
  }
}

RunConfig read_config(const std::string& file, RunConfig base) {
  update(base, io::read_json(file), file);
  return base;
}

}  // namespace addnorm::run
