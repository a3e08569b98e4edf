#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/processes.h"
#include "cli/setting_flags.h"
#include "cli/stop_on_signal.h"
#include "cli/train_text.h"
#include "io/file.h"
#include "report/run_report.h"
#include "run/checkpoint.h"

namespace addnorm::cli {
namespace {

namespace fs = std::filesystem;

struct TrainFlags {
  SettingFlags settings;
  std::string config = {};
  std::string out = {};
  bool resume = false;
};

/// Returns the configuration with which a run began, if there is one: config.json, else that of the
/// checkpoint, which lacks only the names of the text's files.
std::optional<run::RunConfig> first_configuration(const run::RunFiles& files) {
  if (fs::exists(files.config)) return run::read_config(files.config);
  if (fs::exists(files.checkpoint)) return run::Checkpoint(files.checkpoint).state().config;
  return {};
}

/// Returns the configuration from preset or file, then flags. For a resumed run they may change a
/// few settings.
run::RunConfig configuration(const TrainFlags& flags, const run::RunFiles& files) {
  require(flags.config.empty() || !flags.settings.gives("preset"),
          "--preset: cannot be combined with --config {}, which has all settings", flags.config);
  const auto before = flags.resume ? first_configuration(files) : std::nullopt;
  run::RunConfig config = before.value_or(run::RunConfig());
  if (!flags.config.empty()) {
    config = run::read_config(flags.config, config);
  } else if (!before) {
    run::update(config, {{"preset", flags.settings.given().preset}}, "--preset");
  }
  flags.settings.apply(config);
  if (before) check_unchanged(*before, config);
  if (!before && flags.config.empty() &&
      !flags.settings.gives("warm-up")) {  // from a preset, in a short run
    config.warm_up = std::min(config.warm_up, config.steps / 10);
  }
  require(!config.text.empty(), "--text: is missing; expected files to train on{}",
          before ? fmt::format(", which {} does not name", files.config) : "");
  // valid from any folder
  for (std::string& file : config.text) file = fs::absolute(file).string();
  return config;
}

/// A run with a checkpoint is resumed only on request.
void check_resume(const TrainFlags& flags, const run::RunFiles& files) {
  const bool has_checkpoint = fs::exists(files.checkpoint);
  require(flags.resume || !has_checkpoint,
          "--out: {} has a checkpoint already; use --resume to continue, or choose another folder",
          flags.out);
  if (flags.resume && !has_checkpoint && is_first_process()) {
    fmt::print(stderr,
               "addnorm train: --resume: {} has no checkpoint, so the run starts from step 0\n",
               flags.out);
  }
}

run::RunOutcome run_with_progress(const run::RunConfig& config, const run::RunFiles& files,
                                  const train::ByteText& text, train::Communicator& world,
                                  const StopOnSignal& signals, report::Terminal& terminal) {
  TrainWatch watch(config, terminal);
  return run::run_training(
      config, files, text,
      {.on_step = [&](const run::StepMetrics& m) { watch.step(m); },
       .on_validation = [&](const run::Validation& v) { watch.validation(v); },
       .wants_stop = [&] { return signals.is_requested(); },
       .on_missing_steps = [&](std::size_t count) { watch.missing_steps(count, files); }},
      world);
}

ExitStatus run(const TrainFlags& flags) {
  require(!flags.out.empty(), "--out: is missing; expected the folder of the run");
  const StopOnSignal signals;
  const std::unique_ptr<train::Communicator> joined = join_processes();
  train::Communicator& world = joined ? *joined : train::one_process();
  const run::RunFiles files(flags.out);
  const run::RunConfig config = configuration(flags, files);
  check(config, world.size());
  const train::ByteText text(io::read_text(config.text), config.context);
  const run::MemoryEstimate memory = run::estimate_memory(config, world.size());
  run::check_memory(processes_here() * (memory.total() + text.size()));
  if (fs::exists(files.config)) run::read_config(files.config);  // checks that it is a run's folder
  std::optional<run::RunLock> lock;
  if (is_first_process()) lock.emplace(flags.out);  // only this process writes
  check_resume(flags, files);

  report::Terminal terminal(stdout);
  terminal.write(start_text(config, memory, text.size(), world.size()));
  const run::RunOutcome outcome = run_with_progress(config, files, text, world, signals, terminal);
  if (is_first_process()) io::write_files({{files.report, report::run_html(config, files)}});
  terminal.write(end_text(outcome, files));
  return outcome.end == run::RunOutcome::End::kNotFinite ? kBadOutcome : kDone;
}

}  // namespace

Command train_command(CLI::App& program) {
  const auto flags = std::make_shared<TrainFlags>();
  CLI::App* app = program.add_subcommand("train", "Train a language model over bytes");
  add_file(*app, "--out", flags->out, "folder of the run (required)")->type_name("RUN");
  add_switch(*app, "--resume", flags->resume, "continue from the folder's last checkpoint");
  add_file(*app, "--config", flags->config, "JSON file of settings, in the form of config.json");
  flags->settings.add_to(*app, run::RunConfig(), [](const run::Setting&) { return true; });
  app->footer(train_help());
  return {app, [flags] { return run(*flags); }};
}

}  // namespace addnorm::cli
