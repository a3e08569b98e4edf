#include <memory>
#include <string>
#include <vector>

#include "cli/called_program.h"
#include "cli/command.h"
#include "cli/default_text.h"
#include "cli/options.h"
#include "cli/output_folder.h"
#include "cli/setting_flags.h"
#include "io/file.h"
#include "lab/study.h"
#include "report/study_report.h"
#include "report/terminal.h"

namespace addnorm::cli {
namespace {

struct StudyFlags {
  lab::StudyOptions options;
  SettingFlags settings;
  std::vector<std::string> text;  // empty: the default text
  std::string out = "out/study";
};

constexpr const char* kStudyMeaning =
    R"(Trains small decoders over bytes that differ only in their residual connections and norms. Measures
signal and gradient by layer before training, then the loss after training without and with warm-up.
Writes results.json, profile.jsonl and report.html.

)";

constexpr const char* kStudyNotes = R"(
A --warm-up of 0 is half of the steps. --seed is the first seed; the others follow. The same flags and
text give the same numbers. The claims at the end are no verdicts: the exit status is 0 whether they
hold or not.)";

lab::Study run_with_progress(const StudyFlags& flags, const train::ByteText& text) {
  report::Terminal screen(stderr);
  report::ProgressBar bar(screen, "training", 1000);
  return lab::run_study(flags.options, text,
                        [&](std::size_t done, std::size_t all) { bar.update(1000 * done / all); });
}

constexpr const char* kStudyNext = R"(
Try next:
  addnorm study --placement pre,post,sandwich,deepnorm,rezero --out out/more{0}
  addnorm study --placement post,post:3+pre,pre/post --layers 8{0}
  addnorm study --lr 2e-3{0}
  addnorm trace 1 2 3 4 --branch 0.5 -1 2 0
)";

ExitStatus run(StudyFlags flags) {
  flags.settings.apply(flags.options.config);
  lab::check_study(flags.options);
  const train::ByteText text(read_text_or_default(flags.text), flags.options.config.context);
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
  terminal.write(as_called(fmt::format(kStudyNext, text_flag(flags.text))));
  return kDone;
}

}  // namespace

Command study_command(CLI::App& program) {
  const auto flags = std::make_shared<StudyFlags>();
  lab::StudyOptions& options = flags->options;
  CLI::App* app = program.add_subcommand(
      "study", "Train small Transformers on text and show which stacks keep signal and gradient");
  add_text(*app, flags->text);
  add_list(*app, "--placement", options.placements, "placements to compare, separated by commas")
      ->type_name(placement_names())
      ->option_text("LIST");
  add_count(*app, "--seeds", options.seeds, "models for each placement (3)");
  flags->settings.add_to(*app, options.config, [](const run::Setting& s) { return s.in_study; });
  add_file(*app, "--out", flags->out, "folder for the results (default out/study)")
      ->type_name("DIR");
  app->footer(kStudyMeaning + placement_help() + kStudyNotes);
  return {app, [flags] { return run(*flags); }};
}

}  // namespace addnorm::cli
