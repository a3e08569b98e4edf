#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/require.h"
#include "cli/command.h"
#include "cli/options.h"
#include "doctor/diagnose.h"
#include "doctor/examine.h"
#include "io/file.h"
#include "io/npy.h"
#include "report/doctor_report.h"
#include "report/terminal.h"

namespace addnorm {
namespace {

constexpr const char* kMeaning =
    R"(TARGET is a run of `addnorm train`; a folder with config.json and .safetensors files as the Hugging
Face hub has them (gpt2, bert, llama, qwen2, qwen3, gemma, gemma2, gemma3_text, olmo2, t5's encoder),
or one such file beside its config.json; or a profile .jsonl, as python/addnorm_probe.py writes it of
any PyTorch model.

A model is run here, forward and backward, one layer in memory at a time, on random tokens or on those
of --tokens. What passes is compared with what its recipe, algebra and theory say: findings come first,
worst first, each with its place, what was seen, what was expected, and a fix. Notes are no defects.
docs/doctor.md tells each rule.

Exit status: 0 sound, 1 findings, 2 bad usage or bad input.

Examples:
  addnorm doctor out/run                                 a run of addnorm train
  addnorm doctor models/gpt2 --html gpt2.html            a downloaded model, with a report
  addnorm doctor profile.jsonl                           a PyTorch model, through the probe
  addnorm doctor original.jsonl --compare port.jsonl     where a port parts from its original
  addnorm doctor models/gpt2 --tokens in.npy --logits out.npy)";

struct DoctorFlags {
  std::string target, compare;
  std::string tokens, logits, html;
  std::uint64_t seed = 0;
  bool json = false;
};

Tokens read_tokens(const std::string& file) {
  const NpyIntegers array = read_npy_integers(file);
  const Shape& shape = array.shape;
  require((shape.size() == 1 || shape.size() == 2) && !array.values.empty(),
          "{}: has the shape {}; expected (length,) or (batch, length), with tokens", file,
          shape_text(shape));
  for (const std::int64_t id : array.values) {
    require(id >= 0 && id <= std::numeric_limits<std::int32_t>::max(),
            "{}: holds {}, which is no token", file, id);
  }
  return {.ids = {array.values.begin(), array.values.end()},
          .batch = shape.size() == 2 ? shape[0] : 1};
}

/// Writes what the model gives for the tokens, in their shape with one more dimension.
void write_output(StreamedModel& model, const Tokens& tokens, const std::string& file) {
  const MatrixView<const float> output = model.forward(tokens.ids, tokens.batch);
  const Shape shape{tokens.batch, tokens.ids.size() / tokens.batch, output.cols};
  write_files({{file, to_npy(shape, std::span(output.data, output.size()))}});
}

/// `logits`: where the output for the tokens goes; "": nowhere.
Diagnosis diagnose_target(const std::string& target, const DoctorFlags& flags,
                          const std::string& logits = "") {
  Diagnosis diagnosis;
  if (is_profile(target)) {
    require(logits.empty(), "--logits: {} is a profile, nothing is run", target);
    diagnosis.subject = read_profile(target);
  } else {
    OpenedModel opened = open_model(target);
    Tokens tokens{.seed = flags.seed};
    if (!flags.tokens.empty()) tokens = read_tokens(flags.tokens);
    if (!logits.empty()) write_output(opened.model, tokens, logits);
    examine(opened.model, tokens, opened.subject);
    diagnosis.subject = std::move(opened.subject);
  }
  diagnosis.findings = diagnose(diagnosis.subject);
  return diagnosis;
}

ExitStatus run(const DoctorFlags& flags) {
  require(flags.logits.empty() || !flags.tokens.empty(),
          "--logits: expected --tokens beside it: of which tokens?");
  std::vector<std::string> outputs;
  for (const std::string& file : {flags.logits, flags.html}) {
    if (!file.empty()) outputs.push_back(file);
  }
  check_outputs(outputs);
  require(!flags.json || flags.compare.empty(), "--compare: has no JSON");
  const Diagnosis diagnosis = diagnose_target(flags.target, flags, flags.logits);
  if (!flags.html.empty()) write_files({{flags.html, doctor_html(diagnosis)}});
  if (flags.json) {
    fmt::print("{}", doctor_json(diagnosis));
  } else {
    Terminal terminal(stdout);
    terminal.write(doctor_text(diagnosis, terminal.width()));
    if (!flags.compare.empty()) {
      const Diagnosis other = diagnose_target(flags.compare, flags);
      terminal.write("\n" + comparison_text(diagnosis, other, terminal.width()));
    }
  }
  return diagnosis.sound() ? kDone : kBadOutcome;
}

}  // namespace

Command doctor_command(CLI::App& program) {
  const auto flags = std::make_shared<DoctorFlags>();
  CLI::App* app = program.add_subcommand(
      "doctor", "Find what is wrong in a network's plumbing, where, and how to mend it");
  app->add_option("TARGET", flags->target, "a run, a model's folder or file, or a profile")
      ->required()
      ->type_name("");
  add_file(*app, "--compare", flags->compare, "another target, held against this one")
      ->type_name("TARGET");
  add_file(*app, "--tokens", flags->tokens, "ids to run the model on: .npy of int32 or int64");
  add_file(*app, "--logits", flags->logits, "where the model's output for them goes, as .npy");
  add_count(*app, "--seed", flags->seed, "of random tokens (default 0)");
  add_file(*app, "--html", flags->html, "where a page with curves goes");
  add_switch(*app, "--json", flags->json, "print one JSON document");
  app->footer(kMeaning);
  return {app, [flags] { return run(*flags); }};
}

}  // namespace addnorm
