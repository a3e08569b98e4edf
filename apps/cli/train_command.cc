#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/processes.h"
#include "io/file.h"
#include "report/numbers.h"
#include "report/run_report.h"
#include "report/terminal.h"
#include "run/memory.h"
#include "run/training_run.h"

namespace addnorm {
namespace {

namespace fs = std::filesystem;

struct TrainFlags {
  RunConfig given;  // where its flag was given
  std::vector<std::pair<const Setting*, const CLI::Option*>> options = {};
  std::string config = {};
  std::string out = {};
  bool resume = false;

  bool gives(std::string_view name) const {
    return std::ranges::any_of(
        options, [&](auto& o) { return o.first->name == name && o.second->count() > 0; });
  }
  /// Changes what flags say.
  void apply(RunConfig& config_) const {
    for (const auto& [setting, option] : options) {
      if (option->count() == 0) continue;
      std::visit([&](auto member) { config_.*member = given.*member; }, setting->member);
    }
  }
};

/// Preset or file, then flags. A run that goes on has its own configuration, of which flags may
/// change a few settings.
RunConfig configuration(const TrainFlags& flags, const RunFiles& files) {
  RunConfig config;
  const bool goes_on = flags.resume && fs::exists(files.config);
  require(!goes_on || flags.config.empty(), "--config: the run goes on with the settings in {}",
          files.config);
  if (goes_on) {
    config = read_config(files.config);
  } else if (!flags.config.empty()) {
    config = read_config(flags.config);
  } else {
    update(config, {{"preset", flags.given.preset}}, "--preset");
  }
  const RunConfig before = config;
  flags.apply(config);
  if (goes_on) check_unchanged(before, config);
  if (!goes_on && flags.config.empty() && !flags.gives("warm-up")) {  // a preset's, in a short run
    config.warm_up = std::min(config.warm_up, config.steps / 10);
  }
  require(!config.text.empty(), "--text: is missing; expected files to train on");
  for (std::string& file : config.text) file = fs::absolute(file).string();  // found from anywhere
  return config;
}

std::string memory_words(std::size_t bytes) {
  const double size = static_cast<double>(bytes);
  return size < 1e9 ? fmt::format("{:.0f} MB", size / 1e6) : fmt::format("{:.2f} GB", size / 1e9);
}

void check_memory(std::size_t needed) {
  const std::optional<std::size_t> available = available_memory();
  require(
      !available || needed <= *available,
      "the run takes about {} of memory, and {} are free; a smaller --batch, --context, --width "
      "or --layers takes less",
      memory_words(needed), memory_words(available.value_or(0)));
}

void announce(const RunConfig& config, const MemoryEstimate& memory, std::size_t text_bytes,
              std::size_t processes, Terminal& terminal) {
  const bool alone = processes == 1;
  terminal.print("{} layers, width {}, {}-norm, {}: {} parameters; {} bytes of text\n",
                 config.layers, config.width, config.placement, config.dtype,
                 format_count(memory.parameters), format_count(text_bytes));
  terminal.print("Memory{}: {} (weights {}, optimizer {}, activations {}{})\n",
                 alone ? "" : fmt::format(" of each of {} processes", processes),
                 memory_words(memory.total()), memory_words(memory.weights),
                 memory_words(memory.optimizer), memory_words(memory.activations),
                 alone ? "" : fmt::format(", exchange {}", memory_words(memory.exchange)));
}

/// While this lives, Ctrl+C and SIGTERM ask the run to stop after its step; a second one ends the
/// program. So does SIGUSR1, which mpirun hands on and leaves all processes the time.
///
/// A thread waits for them, and they are blocked in all others, which must be started later: no
/// handler may run on a thread that computes, because oneDNN's products use the stack's register
/// for something else. A closed pipe ends nothing.
class StopOnSignal {
 public:
  StopOnSignal() {
    std::signal(SIGPIPE, SIG_IGN);
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals_, signal);
    ::pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    waiter_ = std::thread([this] { wait(); });
  }
  ~StopOnSignal() {
    is_over_ = true;
    waiter_.join();
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  bool is_requested() const { return is_requested_; }

 private:
  void wait() {
    constexpr timespec kMoment{0, 50'000'000};
    while (!is_over_) {
      const int signal = ::sigtimedwait(&signals_, nullptr, &kMoment);
      if (signal > 0 && is_requested_.exchange(true)) std::_Exit(128 + signal);
    }
  }

  sigset_t signals_ = {};
  std::atomic<bool> is_requested_ = false;
  std::atomic<bool> is_over_ = false;
  std::thread waiter_;
};

double bits(double nats) {
  return nats / std::numbers::ln2;
}

std::string validation_words(double loss) {
  return fmt::format("validation {:.3f} nats, {:.3f} bits a byte", loss, bits(loss));
}

/// Shows how a run goes on: a bar, and a line for each validation.
class Watch {
 public:
  Watch(const RunConfig& config, Terminal& terminal) : terminal_(terminal), steps_(config.steps) {}

  void step(const StepMetrics& m) {
    if (!bar_) {
      bar_.emplace(screen_, "training", steps_, m.step);
      if (m.step > 1) terminal_.print("Going on after step {}\n", m.step - 1);
      first_ = m;
    }
    last_ = m;
    bar_->update(m.step, fmt::format("loss {:.3f}{}", m.loss, rate_words()));
  }

  void validation(const Validation& v) {
    bar_->hide();
    terminal_.print("step {:>6}: loss {:.3f}, {}{}\n", v.step, last_.loss, validation_words(v.loss),
                    rate_words());
  }

 private:
  std::string rate_words() const {
    const double seconds = last_.seconds - first_.seconds;
    if (!(seconds > 0)) return "";
    const double rate = static_cast<double>(last_.tokens - first_.tokens) / seconds;
    return fmt::format("; {} tokens/s", format_count(std::llround(rate)));
  }

  Terminal& terminal_;
  Terminal screen_{stderr};
  std::size_t steps_;
  std::optional<ProgressBar> bar_;
  StepMetrics first_ = {};
  StepMetrics last_ = {};
};

RunOutcome run_with_progress(const RunConfig& config, const RunFiles& files, const ByteText& text,
                             Communicator& world, const StopOnSignal& signals, Terminal& terminal) {
  Watch watch(config, terminal);
  return run_training(config, files, text,
                      {.on_step = [&](const StepMetrics& m) { watch.step(m); },
                       .on_validation = [&](const Validation& v) { watch.validation(v); },
                       .wants_stop = [&] { return signals.is_requested(); }},
                      world);
}

/// "Time: products 71 %, attention 9 %, ...".
std::string time_words(const RunOutcome& outcome) {
  const double all = std::accumulate(outcome.seconds.begin(), outcome.seconds.end(), 0.0);
  if (all == 0) return "No step was left to make.";
  std::vector<std::string> words;
  for (std::size_t i = 0; i < kCostNames.size(); ++i) {
    words.push_back(fmt::format("{} {:.0f} %", kCostNames[i], 100 * outcome.seconds[i] / all));
  }
  return fmt::format("Time: {}", fmt::join(words, ", "));
}

ExitStatus conclude(const RunOutcome& outcome, const RunFiles& files, Terminal& terminal) {
  const std::string resume = fmt::format("addnorm train --resume --out {}", files.folder);
  switch (outcome.end) {
    case RunOutcome::End::kNotFinite:
      terminal.print("{}\n{}: {}\n", outcome.problem,
                     fs::exists(files.checkpoint) ? "The last checkpoint is kept"
                                                  : "There was no checkpoint yet",
                     files.checkpoint);
      return kVerdictFailed;
    case RunOutcome::End::kStopped:
      terminal.print("Stopped after step {}, with a checkpoint. Go on with:\n  {}\n", outcome.steps,
                     resume);
      return kDone;
    default:
      terminal.print("{} steps: {}\n{}\n", format_count(outcome.steps),
                     validation_words(outcome.validation_loss), time_words(outcome));
  }
  terminal.print("The curves: {}\n\nTry next:\n  addnorm generate {} --prompt \"The \"\n",
                 files.report, files.folder);
  return kDone;
}

ExitStatus run(const TrainFlags& flags) {
  require(!flags.out.empty(), "--out: is missing; expected the folder of the run");
  const StopOnSignal signals;
  const std::unique_ptr<Communicator> joined = join_processes();
  Communicator& world = joined ? *joined : one_process();
  const bool is_first = world.rank() == 0;  // it alone writes
  const RunFiles files(flags.out);
  const RunConfig config = configuration(flags, files);
  check(config, world.size());
  const ByteText text(read_text(config.text), config.context);
  const MemoryEstimate memory = estimate_memory(config, world.size());
  check_memory(processes_here() * (memory.total() + text.size()));
  if (fs::exists(files.config)) read_config(files.config);  // it is a run's folder
  std::optional<RunLock> lock;
  if (is_first) lock.emplace(flags.out);
  require(
      flags.resume || !fs::exists(files.checkpoint),
      "--out: {} has a checkpoint already; --resume goes on with it, another folder begins anew",
      flags.out);

  Terminal terminal(stdout);
  announce(config, memory, text.size(), world.size(), terminal);
  const RunOutcome outcome = run_with_progress(config, files, text, world, signals, terminal);
  if (is_first) write_files({{files.report, run_html(config, files)}});
  return conclude(outcome, files, terminal);
}

std::string default_text(const Setting& setting) {
  const RunConfig config;
  return std::visit(
      [&](auto member) {
        using Value = std::remove_cvref_t<decltype(config.*member)>;
        if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
          return std::string();
        } else {
          return fmt::format(" ({})", config.*member);
        }
      },
      setting.member);
}

CLI::Option* add(CLI::App& app, const Setting& setting, RunConfig& given) {
  const std::string flag = fmt::format("--{}", setting.name);
  const std::string help = std::string(setting.meaning) + default_text(setting);
  if (const auto* count = std::get_if<std::uint64_t RunConfig::*>(&setting.member)) {
    return add_count(app, flag, given.*(*count), help);
  }
  if (const auto* number = std::get_if<double RunConfig::*>(&setting.member)) {
    return add_number(app, flag, given.*(*number), help);
  }
  if (const auto* words = std::get_if<std::vector<std::string> RunConfig::*>(&setting.member)) {
    return app.add_option(flag, given.*(*words), help)->type_name("FILE...");
  }
  const auto word = std::get<std::string RunConfig::*>(setting.member);
  const std::string type =
      setting.choices.empty() ? "TEXT" : fmt::format("{}", fmt::join(setting.choices, "|"));
  return app.add_option(flag, given.*word, help)->type_name(type);
}

std::string meaning() {
  std::string text =
      R"(Writes into --out: config.json, metrics.jsonl (a line for each step), profile.jsonl (signal and
gradient by layer), checkpoint.safetensors, and report.html at the end. The same settings and text
give the same bits with the same number of threads, with breaks or without. Ctrl+C stops after the step, with a checkpoint.

`mpirun -n 4 addnorm train …` (built by `make mpi`) shares each batch among 4 processes: --batch is
that of all of them and must be a multiple of 4. The curve is that of one process to rounding, the
bits are the same for the same number of processes; --resume takes any number. All must reach --out.
OMP_NUM_THREADS says how many threads each takes. At Ctrl+C mpirun leaves them a second for step and
checkpoint, `--mca odls_base_sigkill_timeout 10` ten, and `kill -USR1` of mpirun all they need.

Presets; in brackets above are the settings of small:
)";
  for (const Preset& preset : presets()) {
    const RunConfig& c = preset.config;
    text += fmt::format("  {:11} {} × {}, context {}: {}\n", preset.name, c.layers, c.width,
                        c.context, preset.meaning);
  }
  return text;
}

}  // namespace

Command train_command(CLI::App& program) {
  const auto flags = std::make_shared<TrainFlags>();
  CLI::App* app = program.add_subcommand("train", "Train a language model over bytes");
  add_file(*app, "--out", flags->out, "folder of the run")->type_name("RUN");
  add_switch(*app, "--resume", flags->resume, "go on with the folder's last checkpoint");
  add_file(*app, "--config", flags->config, "settings as JSON, as config.json has them");
  for (const Setting& setting : settings()) {
    flags->options.emplace_back(&setting, add(*app, setting, flags->given));
  }
  app->footer(meaning());
  return {app, [flags] { return run(*flags); }};
}

}  // namespace addnorm
