#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/default_text.h"
#include "cli/options.h"
#include "cli/output_folder.h"
#include "io/file.h"
#include "lab/study.h"
#include "report/study_report.h"
#include "report/terminal.h"

namespace addnorm::cli {
namespace {

struct StudyFlags {
  lab::StudyOptions options;
  std::vector<std::string> text;  // empty: the default text
  std::string out = "out/study";
};

constexpr const char* kStudyMeaning =
    R"(Trains small decoders over bytes that differ only in their residual connections and norms. Measures
signal and gradient by layer before training, then the loss after training without and with warm-up. Writes results.json, profile.jsonl and report.html.

)";

std::string meaning() {
  return kStudyMeaning + placement_help() +
         "\nThe same flags and text give the same numbers. The claims at the end are no verdicts: "
         "whether they\nhold or not, the exit status is 0.";
}

lab::Study run_with_progress(const StudyFlags& flags, const ByteText& text) {
  report::Terminal screen(stderr);
  report::ProgressBar bar(screen, "training", 1000);
  return lab::run_study(flags.options, text,
                        [&](std::size_t done, std::size_t all) { bar.update(1000 * done / all); });
}

constexpr const char* kStudyNext = R"(
Try next:
  addnorm study --placement pre,post,sandwich,deepnorm,rezero --out out/more
  addnorm study --placement post,post:3+pre,pre/post --layers 8
  addnorm study --text your-file.txt --lr 2e-3
  addnorm trace 1 2 3 4 --branch 0.5 -1 2 0
)";

ExitStatus run(StudyFlags flags) {
  if (flags.options.warm_up == 0) {
    flags.options.warm_up = std::max<std::uint64_t>(1, flags.options.steps / 2);
  }
  lab::check_study(flags.options);
  const ByteText text(read_text_or_default(flags.text), flags.options.context);
  const std::vector<std::string> names =
      prepare_outputs(flags.out, {"results.json", "profile.jsonl", "report.html"});
  const lab::Study study = run_with_progress(flags, text);
  const report::StudyReport report(study);
  io::write_files({{names[0], report::study_json(report)},
                   {names[1], report::study_profile(report)},
                   {names[2], report::study_html(report)}});
  report::Terminal terminal(stdout);
  terminal.write(report::study_text(report, terminal.width()));
  terminal.print("\nThe curves: {}\nThe numbers: {} and {}\n", names[2], names[0], names[1]);
  terminal.write(kStudyNext);
  return kDone;
}

void add_training_flags(CLI::App& app, lab::StudyOptions& o) {
  app.add_option("--placement", o.placements, "placements to compare, with commas between")
      ->delimiter(',')
      ->type_name(placement_names())
      ->option_text("LIST");
  add_choice(app, "--norm", o.norm.kind, "the norm in every slot (default layer)", kRowNorms);
  add_number(app, "--eps", o.norm.epsilon, "the norm's epsilon (default 1e-5)");
  add_count(app, "--layers", o.layers, "blocks (default 12)");
  add_count(app, "--width", o.width, "d_model; the feed-forward is 4 times wider (default 64)");
  add_count(app, "--heads", o.heads, "attention heads (default 4)");
  add_count(app, "--context", o.context, "bytes that a model sees (default 32)");
  add_count(app, "--batch", o.batch, "windows of text in a step (default 8)");
  add_count(app, "--steps", o.steps, "training steps (default 200)");
  add_count(app, "--warm-up", o.warm_up,
            "steps of the runs with warm-up (default half of the steps)");
  add_count(app, "--seed", o.seed, "the first seed (default 0)");
  add_number(app, "--lr", o.learning_rate, "AdamW's learning rate (default 4e-3)");
  add_number(app, "--dropout", o.dropout, "probability, on each branch (default 0)");
  add_choice(app, "--init", o.initialization, "how weights are drawn (default torch)");
}

}  // namespace

Command study_command(CLI::App& program) {
  const auto flags = std::make_shared<StudyFlags>();
  flags->options.warm_up = 0;  // not given
  CLI::App* app = program.add_subcommand(
      "study", "Train small Transformers on text and show which stacks keep signal and gradient");
  add_text(*app, flags->text);
  add_training_flags(*app, flags->options);
  add_count(*app, "--seeds", flags->options.seeds, "models for each placement (default 3)");
  add_file(*app, "--out", flags->out, "folder for the results (default out/study)")
      ->type_name("DIR");
  app->footer(meaning());
  return {app, [flags] { return run(*flags); }};
}

}  // namespace addnorm::cli
