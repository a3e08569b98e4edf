#include "cli/train_text.h"

#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <numeric>
#include <vector>

#include "cli/called_program.h"
#include "cli/options.h"
#include "report/numbers.h"
#include "report/run_report.h"

namespace addnorm::cli {
namespace {

constexpr const char* kTrainMeaning =
    R"(Writes into --out: config.json, metrics.jsonl (a line for each step), profile.jsonl (signal and
gradient by layer), checkpoint.safetensors, best.safetensors (the parameters at the lowest validation
loss) and report.html at the end. The same settings and text give the same bits with the same number of
threads, with or without interruptions.

--resume continues from the checkpoint in --out; without a checkpoint it starts from the beginning, so
a script can always pass it. Ctrl+C stops after the step and writes a checkpoint; a second Ctrl+C stops
at once, without one.
Exit status: 0 all steps are done, or a stop was requested; 1 a loss or gradient is not finite;
2 bad usage or bad input; 128 + N a second signal N.

`mpirun -n 4 addnorm train …` (built by `make mpi`) shares each batch among 4 processes: --batch is
the total of all processes and must be a multiple of 4. The curve agrees with that of one process up to
rounding; the bits are the same for the same number of processes. --resume takes any number. All must
reach --out. OMP_NUM_THREADS says how many threads each uses. After Ctrl+C mpirun gives the processes
one second for step and checkpoint; `--mca odls_base_sigkill_timeout 10` gives ten, and `kill -USR1` of
mpirun all they need.

)";

std::string presets_table() {
  std::string text =
      fmt::format("{:10} {:>6} {:>5} {:>5} {:>7} {:>5} {:>6} {:>6} {:>7}\n", "preset", "layers",
                  "width", "heads", "context", "batch", "steps", "lr", "weights");
  for (const run::Preset& preset : run::presets()) {
    const run::RunConfig& c = preset.config;
    text += fmt::format(
        "{:10} {:6} {:5} {:5} {:7} {:>5} {:6} {:6} {:5.1f} M  {}\n", preset.name, c.layers, c.width,
        c.heads, c.context, fmt::format("{}×{}", c.batch, c.accumulate), c.steps, c.learning_rate,
        static_cast<double>(run::estimate_memory(c).parameters) / 1e6, preset.meaning);
  }
  return text +
         "Batch × number of batches per step. Defaults in brackets above are those of small.\n";
}

/// Returns "Time: products 71 %, attention 9 %, ...".
std::string time_text(const run::RunOutcome& outcome) {
  const double all = std::accumulate(outcome.seconds.begin(), outcome.seconds.end(), 0.0);
  if (all == 0) return "All steps were already done.";
  std::vector<std::string> words;
  for (std::size_t i = 0; i < kCostNames.size(); ++i) {
    words.push_back(fmt::format("{} {:.0f} %", kCostNames[i], 100 * outcome.seconds[i] / all));
  }
  return fmt::format("Time: {}", fmt::join(words, ", "));
}

}  // namespace

std::string train_help() {
  return kTrainMeaning + presets_table() + '\n' + placement_help();
}

std::string start_text(const run::RunConfig& config, const run::MemoryEstimate& memory,
                       std::size_t text_bytes, std::size_t processes) {
  const bool alone = processes == 1;
  return fmt::format(
      "{}, width {}, {}-norm, {}: {}; {} of text\n"
      "Memory{}: {} (weights {}, optimizer {}, activations {}{})\n",
      report::format_count(config.layers, "layer"), config.width, config.placement, config.dtype,
      report::format_count(memory.parameters, "parameter"),
      report::format_count(text_bytes, "byte"),
      alone ? "" : fmt::format(" of each of {} processes", processes),
      run::memory_text(memory.total()), run::memory_text(memory.weights),
      run::memory_text(memory.optimizer), run::memory_text(memory.activations),
      alone ? "" : fmt::format(", exchange {}", run::memory_text(memory.exchange)));
}

std::string end_text(const run::RunOutcome& outcome, const run::RunFiles& files) {
  switch (outcome.end) {
    case run::RunOutcome::End::kNotFinite:
      return outcome.problem + '\n' +
             (std::filesystem::exists(files.checkpoint)
                  ? fmt::format("The last checkpoint is kept: {}\n", files.checkpoint)
                  : "There was no checkpoint yet.\n");
    case run::RunOutcome::End::kStopped:
      return fmt::format(
          "Stopped after step {}, with a checkpoint. Continue with:\n  {} train --resume --out "
          "{}\n",
          outcome.steps, called_program(), shell_word(files.folder));
    default:
      return fmt::format(
          "{}: validation {}\n{}\nThe curves: {}\n\n"
          "Try next:\n  {} generate {} --prompt \"The \"\n",
          report::format_count(outcome.steps, "step"), report::loss_text(outcome.validation_loss),
          time_text(outcome), files.report, called_program(), shell_word(files.folder));
  }
}

void TrainWatch::step(const run::StepMetrics& m) {
  if (!bar_) {
    bar_.emplace(screen_, "training", steps_, m.step);
    if (m.step > 1) terminal_.print("Continuing after step {}\n", m.step - 1);
    first_ = m;
  }
  last_ = m;
  bar_->update(m.step, fmt::format("loss {:.3f}{}", m.loss, rate_text()));
}

void TrainWatch::validation(const run::Validation& v) {
  bar_->hide();
  terminal_.print("step {:>6}: loss {:.3f}, validation {}{}\n", v.step, last_.loss,
                  report::loss_text(v.loss), rate_text());
}

void TrainWatch::missing_steps(std::size_t count, const run::RunFiles& files) {
  screen_.print("{} lacks {} before the checkpoint; the run continues without them\n",
                files.metrics, report::format_count(count, "step"));
}

std::string TrainWatch::rate_text() const {
  const double seconds = last_.seconds - first_.seconds;
  if (!(seconds > 0)) return "";
  const double rate = static_cast<double>(last_.tokens - first_.tokens) / seconds;
  return fmt::format("; {} tokens/s", report::format_count(std::llround(rate)));
}

}  // namespace addnorm::cli
