#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/require.h"
#include "cli/command.h"
#include "cli/default_text.h"
#include "cli/diagnose.h"
#include "cli/options.h"
#include "cli/stop_on_signal.h"
#include "doctor/alternatives.h"
#include "doctor/diagnose.h"
#include "doctor/prove.h"
#include "doctor/rule_names.h"
#include "io/file.h"
#include "io/json.h"
#include "io/npy.h"
#include "io/temporary_folder.h"
#include "report/doctor_report.h"
#include "report/terminal.h"
#include "run/checkpoint.h"
#include "run/memory.h"

namespace addnorm::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDoctorMeaning =
    R"(TARGET is a run of `addnorm train`; a JSON file of its settings, before anything is trained; a folder
with config.json and .safetensors files as the Hugging Face hub has them (gpt2, bert, llama, mistral,
phi3, qwen2, qwen3, gemma, gemma2, gemma3_text, olmo2, olmo3, glm, glm4, gpt_neox, smollm3, seed_oss,
ernie4_5, gpt_oss, the dense layers of deepseek_v3, the norms of qwen3_next, t5's encoder), or one such
file beside its config.json; a .gguf file of llama.cpp (llama, qwen2, qwen3, gemma, gemma2, gemma3,
phi3, gpt2, gptneox, olmo2, glm4, smollm3, seed_oss, ernie4_5, bert), quantized or not; or a profile
.jsonl, as addnorm.watch and addnorm.probe of the Python package write it.

The model is run forward and backward, one layer in memory at a time, on random tokens, on those of
--tokens, or (a run) on its text. The measurements are compared with the recipe, algebra and theory.
Findings come first, the worst at the top; each has a place, what was seen, what was expected, and a
fix. Notes are not defects. docs/doctor.md describes each rule.

--prove tries the fixes that change a setting or the recipe. A run is trained for some steps unchanged
and with the fix; a model is run with the other recipe. The number of the finding is shown before and
after. Settings are first trained unchanged for as many steps.

--compare shows both targets side by side, in the text, --html and --json: findings that only one has,
the first layer where they differ, and the second's numbers as multiples of the first's.

Exit status: 0 sound, 1 findings, in either of two, 2 bad usage or bad input.

Examples:
  addnorm doctor out/run --prove                         a run of addnorm train
  addnorm doctor settings.json --text book.txt --prove   predict what these settings will do
  addnorm doctor models/gpt2 --html gpt2.html            a downloaded model, with a report
  addnorm doctor models/gpt2 --compare gpt2.gguf         find where a conversion differs
  addnorm doctor profile.jsonl                           a PyTorch model, through the probe
  addnorm doctor original.jsonl --compare port.jsonl     find where a port differs
  addnorm doctor models/gpt2 --tokens in.npy --logits out.npy)";

struct DoctorFlags {
  std::string target, compare;
  std::string tokens, logits, html;
  std::vector<std::string> text, ignore;
  std::uint64_t seed = 0;
  std::uint64_t prove_steps = 300;
  bool prove = false;
  bool json = false;
};

doctor::Tokens read_tokens(const std::string& file) {
  const io::NpyIntegers array = io::read_npy_integers(file);
  const io::Shape& shape = array.shape;
  require((shape.size() == 1 || shape.size() == 2) && !array.values.empty(),
          "{}: has the shape {}; expected (length,) or (batch, length), with tokens", file,
          io::shape_text(shape));
  for (const std::int64_t id : array.values) {
    require(id >= 0 && id <= std::numeric_limits<std::int32_t>::max(),
            "{}: holds {}, which is not a token", file, id);
  }
  return {.ids = {array.values.begin(), array.values.end()},
          .batch = shape.size() == 2 ? shape[0] : 1,
          .origin = "tokens of " + fs::path(file).filename().string()};
}

/// Returns the tokens of --tokens, or random ones.
doctor::Tokens asked_tokens(const DoctorFlags& flags) {
  return flags.tokens.empty() ? doctor::Tokens{.seed = flags.seed} : read_tokens(flags.tokens);
}

/// Writes the model's output for the tokens, in their shape with one more dimension.
void write_output(model::StreamedModel& model, const doctor::Tokens& tokens,
                  const std::string& file) {
  const model::Recipe& recipe = model.recipe();
  require(recipe.runs_whole(), "--logits: only {} of {} layers are run here, the others have {}",
          recipe.layers_run, recipe.layers(), recipe.unknown_part);
  const MatrixView<const float> output = model.forward(tokens.ids, tokens.batch);
  const io::Shape shape{tokens.batch, tokens.ids.size() / tokens.batch, output.cols};
  io::write_files({{file, io::to_npy(shape, std::span(output.data, output.size()))}});
}

/// Whether the path is a JSON file of a run's settings, and not a model's config.json.
bool is_settings(const std::string& path) {
  return path.ends_with(".json") && !io::read_json(path).contains("model_type");
}

/// Returns the text of a run, if it can be read; for settings there is always one.
std::optional<train::ByteText> text_of(const run::RunConfig& config, const DoctorFlags& flags,
                                       bool needed) {
  const std::vector<std::string>& files = flags.text.empty() ? config.text : flags.text;
  const bool is_there = !files.empty() && std::ranges::all_of(files, [](const std::string& file) {
    return fs::exists(file);
  });
  if (!is_there && !needed) return std::nullopt;
  return std::optional<train::ByteText>(std::in_place, read_text_or_default(files), config.context);
}

/// Shows a bar for each run that is tried, and stops when the user interrupts. It leaves nothing on
/// the terminal.
class TrialWatch {
 public:
  run::RunEvents events(const std::string& change, std::size_t steps) {
    bar_.emplace(screen_, change.empty() ? "as it is" : change, steps);
    return {.on_step =
                [this](const run::StepMetrics& m) {
                  bar_->update(m.step, fmt::format("loss {:.3f}", m.loss));
                },
            .wants_stop = [this] { return signals_.is_requested(); }};
  }
  doctor::Subject tried(const run::RunConfig& config, const train::ByteText& text,
                        std::size_t steps) {
    steps = std::min<std::size_t>(steps, config.steps);
    return doctor::try_settings(config, text, steps, events("", steps));
  }

 private:
  const StopOnSignal signals_;
  report::Terminal screen_{stderr};
  std::optional<report::ProgressBar> bar_;
};

void note_if_nothing_to_prove(const report::Diagnosis& diagnosis) {
  const bool any = std::ranges::any_of(
      diagnosis.findings, [](const doctor::Finding& finding) { return !finding.remedies.empty(); });
  if (any) return;
  fmt::print(stderr, "addnorm doctor: --prove: no finding of {} has a fix that can be tried\n",
             diagnosis.subject.name);
}

std::vector<doctor::Proof> prove_with_progress(const doctor::Subject& subject,
                                               const std::vector<doctor::Finding>& findings,
                                               const train::ByteText& text, std::size_t steps) {
  run::check_memory(run::estimate_memory(*subject.config).total() + text.size());
  TrialWatch watch;
  return doctor::prove_by_training(subject, findings, text, steps, [&](const std::string& change) {
    return watch.events(change, steps);
  });
}

/// Runs the rules, and predicts the consequences of their findings.
report::Diagnosis judged(doctor::Subject subject, const train::ByteText* text,
                         const DoctorFlags& flags) {
  if (text != nullptr) subject.unigram_loss = text->unigram_loss();
  report::Diagnosis diagnosis = report::diagnose(std::move(subject), flags.ignore);
  if (!flags.prove) return diagnosis;
  require(text != nullptr, "--text: is missing; the text of {} is no longer in its place",
          diagnosis.subject.name);
  note_if_nothing_to_prove(diagnosis);
  diagnosis.proofs =
      prove_with_progress(diagnosis.subject, diagnosis.findings, *text, flags.prove_steps);
  return diagnosis;
}

/// Checks the memory for the model's output, its gradient, and copies, in addition to the model.
void check_memory_of(const model::StreamedModel& model, const doctor::Tokens& tokens) {
  constexpr std::size_t kMatrices = 4;
  run::check_memory(
      kMatrices * sizeof(float) * tokens.ids.size() *
      (model.recipe().outputs() + model.recipe().layers() * model.recipe().d_model()));
}

/// Examines the model on its text, if there is one, else on the requested tokens.
doctor::Subject examined(doctor::OpenedModel opened, const train::ByteText* text,
                         const DoctorFlags& flags) {
  const bool own = text != nullptr && flags.tokens.empty();
  const doctor::Tokens tokens =
      own ? doctor::text_tokens(*text, opened.subject.config->context) : asked_tokens(flags);
  check_memory_of(opened.model, tokens);
  if (!flags.logits.empty()) write_output(opened.model, tokens, flags.logits);
  doctor::examine(opened.model, tokens, opened.subject);
  const bool is_lost = opened.subject.config && text == nullptr && flags.tokens.empty();
  if (is_lost) opened.subject.measured_on += " (its text is no longer in its place)";
  return std::move(opened.subject);
}

report::Diagnosis diagnose_run(const std::string& folder, const DoctorFlags& flags) {
  const run::RunFiles files(folder);
  doctor::Subject subject = doctor::read_run(files);
  require(subject.config || fs::exists(files.checkpoint), "{}: there is no config.json", folder);
  if (!subject.config) subject.config = run::Checkpoint(files.checkpoint).state().config;
  check(*subject.config);
  const std::optional<train::ByteText> text = text_of(*subject.config, flags, !flags.text.empty());
  const train::ByteText* const known = text ? &*text : nullptr;
  if (fs::exists(files.checkpoint)) {
    subject = examined(doctor::open_run(files, std::move(subject)), known, flags);
  }
  return judged(std::move(subject), known, flags);
}

report::Diagnosis diagnose_settings(const std::string& file, const DoctorFlags& flags) {
  const run::RunConfig config = run::read_config(file);
  check(config);
  const std::optional<train::ByteText> text = text_of(config, flags, true);
  run::check_memory(run::estimate_memory(config).total() + text->size());
  const io::TemporaryFolder folder;
  doctor::Subject subject =
      flags.prove ? TrialWatch().tried(config, *text, flags.prove_steps)
                  : examined(doctor::open_settings(config, folder.path(), *text), &*text, flags);
  subject.name = file;
  return judged(std::move(subject), &*text, flags);
}

report::Diagnosis diagnose_model(const std::string& path, const DoctorFlags& flags) {
  require(
      !flags.prove || !flags.tokens.empty(),
      "--prove: requires --tokens from text that the model was trained on; recipes are compared "
      "by their loss");
  require(flags.text.empty(), "--text: {} is not a run; use --tokens to give a model its tokens",
          path);
  doctor::OpenedModel opened = doctor::open_model(path);
  const model::Recipe recipe = opened.model.recipe();
  doctor::Subject subject = examined(std::move(opened), nullptr, flags);
  const doctor::Tokens tokens = asked_tokens(flags);
  if (!flags.tokens.empty()) try_alternatives(path, recipe, tokens, subject);
  report::Diagnosis diagnosis = report::diagnose(std::move(subject), flags.ignore);
  if (flags.prove) {
    note_if_nothing_to_prove(diagnosis);
    diagnosis.proofs =
        doctor::prove_by_running(path, diagnosis.subject, diagnosis.findings, tokens);
  }
  return diagnosis;
}

report::Diagnosis diagnose_profile(const std::string& file, const DoctorFlags& flags) {
  require(flags.logits.empty() && flags.tokens.empty() && flags.text.empty(),
          "{}: is a profile, so nothing is run; leave out --tokens, --logits and --text", file);
  require(!flags.prove, "--prove: {} is a profile, so no fix can be tried", file);
  return report::diagnose(doctor::read_profile(file), flags.ignore);
}

report::Diagnosis diagnose_target(const std::string& target, const DoctorFlags& flags) {
  require(fs::exists(target), "{}: there is no such file or folder", target);
  if (doctor::is_profile(target)) return diagnose_profile(target, flags);
  if (doctor::is_run(target)) return diagnose_run(target, flags);
  const std::string folder = fs::path(target).parent_path().string();
  if (target == run::RunFiles(folder).checkpoint) return diagnose_run(folder, flags);
  if (is_settings(target)) return diagnose_settings(target, flags);
  if (target.ends_with(".json")) {  // JSON of a model
    return diagnose_model(fs::absolute(target).parent_path().string(), flags);
  }
  return diagnose_model(target, flags);
}

void print(const report::Diagnosis& diagnosis, const report::Diagnosis* other,
           const DoctorFlags& flags) {
  if (!flags.html.empty()) io::write_files({{flags.html, report::doctor_html(diagnosis, other)}});
  if (flags.json) return fmt::print("{}", report::doctor_json(diagnosis, other));
  report::Terminal terminal(stdout);
  terminal.write(report::doctor_text(diagnosis, terminal.width()));
  if (other != nullptr) {
    terminal.write("\n" + report::comparison_text(diagnosis, *other, terminal.width()));
  }
}

ExitStatus run(const DoctorFlags& flags) {
  require(flags.logits.empty() || !flags.tokens.empty(), "--logits: requires --tokens");
  with_prefix("--ignore: ", [&] { doctor::check_accepted(flags.ignore); });
  require(flags.prove_steps > 0, "--prove-steps: expected at least 1");
  std::vector<std::string> outputs;
  for (const std::string& file : {flags.logits, flags.html}) {
    if (!file.empty()) outputs.push_back(file);
  }
  io::check_outputs(outputs);
  const report::Diagnosis diagnosis = diagnose_target(flags.target, flags);
  std::optional<report::Diagnosis> other;
  if (!flags.compare.empty()) {
    DoctorFlags others = flags;
    others.logits.clear();
    other = diagnose_target(flags.compare, others);
  }
  print(diagnosis, other ? &*other : nullptr, flags);
  return diagnosis.sound() && (!other || other->sound()) ? kDone : kBadOutcome;
}

}  // namespace

report::Diagnosis diagnose(const std::string& target) {
  return diagnose_target(target, {});
}

Command doctor_command(CLI::App& program) {
  const auto flags = std::make_shared<DoctorFlags>();
  CLI::App* app = program.add_subcommand(
      "doctor", "Find bugs in a network's residual connections and norms, and how to fix them");
  app->add_option("TARGET", flags->target,
                  "a run, its settings, a model's folder or file, or a profile")
      ->required()
      ->type_name("");
  add_file(*app, "--compare", flags->compare, "a second target, compared with this one")
      ->type_name("TARGET");
  add_file(*app, "--tokens", flags->tokens, "ids to run the model on: .npy of int32 or int64");
  add_file(*app, "--logits", flags->logits, "file for the model's logits of these tokens, as .npy");
  add_count(*app, "--seed", flags->seed, "seed of the random tokens (default 0)");
  add_text(*app, flags->text)
      ->description("text of a run or of settings (default: the files that they name)");
  add_switch(*app, "--prove", flags->prove, "try the fixes, where that is possible");
  add_count(*app, "--prove-steps", flags->prove_steps, "training steps for --prove (default 300)");
  add_file(*app, "--html", flags->html, "file for an HTML page with curves");
  add_switch(*app, "--json", flags->json, "print one JSON document");
  app->add_option("--ignore", flags->ignore,
                  "leave out findings: a rule, or \"rule@layer 2\"; may be given several times")
      ->allow_extra_args(false)
      ->type_name("RULE");
  app->footer(kDoctorMeaning);
  return {app, [flags] { return run(*flags); }};
}

}  // namespace addnorm::cli
