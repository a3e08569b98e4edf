#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "addnorm/error.h"
#include "base/require.h"
#include "cli/called_program.h"
#include "cli/command.h"
#include "cli/default_text.h"
#include "cli/options.h"
#include "cli/output_folder.h"
#include "io/file.h"
#include "report/lab_report.h"
#include "report/terminal.h"

namespace addnorm::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLabMeaning =
    R"(Draws or trains networks, measures them, and plots the prediction of theory on the same axes. Each
claim gets a verdict: inside the prediction, outside, or not applicable. ± is four standard errors of a
mean over seeds.
Prints plots and verdicts; writes FIGURE.svg, FIGURE.json and index.html, which shows all figures whose
FIGURE.json is in the folder.

Without a figure, or with `list`, prints the figures and their options. `all` runs every figure; an
option applies to the figures that accept it. --break puts a silent bug into the measured network; the
prediction does not change. A figure that can detect the bug has a verdict outside, and the exit status
is 1.

The same flags and the same text give the same numbers.)";

constexpr const char* kLabNext = R"(
Try next:
  addnorm lab gradient-flow --layers 24 --seeds 16
  addnorm lab gradient-flow --break norm-missing
  addnorm lab all --out out/lab{}
)";

struct LabFlags {
  std::vector<std::string> figures;
  lab::FigureOptions options;
  std::vector<std::string> text;  // empty: the default text
  std::string out = "out/lab";
  bool json = false;
};

std::string next_text(const LabFlags& flags) {
  return as_called(fmt::format(kLabNext, text_flag(flags.text)));
}

std::vector<report::LabRun> plan_named(const LabFlags& flags) {
  for (const std::string& name : flags.figures) lab::find_figure(name);
  std::vector<report::LabRun> runs;
  for (const lab::Figure& figure : lab::figures()) {
    if (std::ranges::count(flags.figures, figure.name) == 0) continue;
    require(figure.trains || flags.text.empty(), "--text: {} has no such option", figure.name);
    runs.push_back({figure, lab::complete(figure, flags.options), {}});
  }
  return runs;
}

/// Sets the option of all figures that have it, and records those that cannot run its value. Throws
/// an Error if none can.
void give_to_all(std::vector<report::LabRun>& runs, const lab::FigureOption& option,
                 const lab::FigureOptions& asked, std::string& notes) {
  std::set<std::string> refusals;
  std::size_t takers = 0;
  for (report::LabRun& run : runs) {
    if (!option.is_set(run.figure.defaults())) continue;
    lab::FigureOptions options = run.options;
    option.copy(asked, options);
    try {
      run.options = lab::complete(run.figure, options);
      ++takers;
    } catch (const Error& error) {
      refusals.insert(error.what());
      notes += fmt::format("{} ignores {}\n", run.figure.name, error.what());
    }
  }
  if (takers == 0) fail(fmt::format("{}", fmt::join(refusals, "; ")));
}

std::vector<report::LabRun> plan_all(const LabFlags& flags, std::string& notes) {
  std::vector<report::LabRun> runs;
  for (const lab::Figure& figure : lab::figures()) {
    const lab::FigureOptions asked{.seed = flags.options.seed, .bug = flags.options.bug};
    runs.push_back({figure, lab::complete(figure, asked), {}});
  }
  for (const lab::FigureOption& option : lab::figure_options()) {
    if (option.is_set(flags.options)) give_to_all(runs, option, flags.options, notes);
  }
  return runs;
}

bool names_only(const LabFlags& flags, std::string_view word) {
  const bool is_there = std::ranges::count(flags.figures, word) > 0;
  require(!is_there || flags.figures.size() == 1, "'{}': cannot be combined with other figures",
          word);
  return is_there;
}

/// Returns the requested runs, all checked before the first one starts.
std::vector<report::LabRun> plan(const LabFlags& flags, const CLI::App& app) {
  for (const auto& [flag, value] :
       {std::pair{"--width", flags.options.width}, {"--seeds", flags.options.seeds}}) {
    require(app.count(flag) == 0 || value > 0, "{}: is 0; expected at least 1", flag);
  }
  std::string notes;
  std::vector<report::LabRun> runs =
      names_only(flags, "all") ? plan_all(flags, notes) : plan_named(flags);
  if (std::ranges::any_of(runs, [](const report::LabRun& run) { return run.figure.trains; })) {
    const std::string text = read_text_or_default(flags.text);
    require(text.size() >= lab::kLeastText, "--text: has {} bytes; expected at least {}",
            text.size(), lab::kLeastText);
    for (report::LabRun& run : runs) {
      if (run.figure.trains) run.options.text = text;
    }
  }
  fmt::print(stderr, "{}", notes);
  return runs;
}

ExitStatus list(const LabFlags& flags, const CLI::App& app) {
  std::vector<std::string> of_figures{"--seed", "--text"};
  for (const lab::FigureOption& option : lab::figure_options())
    of_figures.emplace_back(option.flag);
  for (const std::string& flag : of_figures) {
    require(app.count(flag) == 0,
            "{}: no figure is named; expected one that '{} lab list' shows, or all", flag,
            called_program());
  }
  report::Terminal terminal(stdout);
  if (flags.json) {
    fmt::print("{}", report::lab_list_json(lab::figures()));
  } else {
    terminal.write(report::lab_list_text(lab::figures(), terminal.width()));
    terminal.write(next_text(flags));
  }
  return kDone;
}

void measure(std::vector<report::LabRun>& runs) {
  report::Terminal screen(stderr);
  report::ProgressBar bar(screen, "measuring", runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    bar.update(i, runs[i].figure.name);
    runs[i].result = runs[i].figure.run(runs[i].options);
  }
}

/// Returns the names of two files for each run, and of the page.
std::vector<std::string> output_names(const std::vector<report::LabRun>& runs) {
  std::vector<std::string> names;
  for (const report::LabRun& run : runs) {
    for (const char* extension : {"svg", "json"}) {
      names.push_back(fmt::format("{}.{}", run.figure.name, extension));
    }
  }
  names.emplace_back("index.html");
  return names;
}

/// Returns the runs, and the figures that other runs left in the folder, in the order of the lab.
std::vector<report::LabEntry> all_entries(const std::vector<report::LabRun>& runs,
                                          const std::string& folder) {
  std::vector<report::LabEntry> entries;
  for (const lab::Figure& figure : lab::figures()) {
    const auto run = std::ranges::find_if(
        runs, [&](const report::LabRun& r) { return r.figure.name == figure.name; });
    const fs::path file = fs::path(folder) / fmt::format("{}.json", figure.name);
    if (run != runs.end()) {
      entries.push_back(report::lab_entry(*run));
    } else if (fs::exists(file)) {
      try {
        entries.push_back(report::read_lab_json(io::read_file(file), file));
      } catch (const Error& error) {
        report::Terminal(stderr).print("addnorm lab: index.html leaves out {}\n", error.what());
      }
    }
  }
  return entries;
}

void write_all(const std::vector<report::LabRun>& runs, const std::vector<std::string>& names,
               const std::string& folder) {
  std::vector<io::OutputFile> files;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    files.push_back({names[2 * i], report::lab_svg(runs[i])});
    files.push_back({names[2 * i + 1], report::lab_json(runs[i])});
  }
  files.push_back({names.back(), report::lab_html(all_entries(runs, folder))});
  io::write_files(files);
}

void print_json(const std::vector<report::LabRun>& runs, bool as_array) {
  std::string text;
  for (const report::LabRun& run : runs) text += (text.empty() ? "" : ",") + report::lab_json(run);
  fmt::print("{}", as_array ? "[" + text + "]\n" : text);
}

void print_text(const std::vector<report::LabRun>& runs, const std::vector<std::string>& names,
                const LabFlags& flags) {
  report::Terminal terminal(stdout);
  for (const report::LabRun& run : runs)
    terminal.write(report::lab_text(run, terminal.width()) + "\n");
  if (runs.size() > 1) terminal.write(report::lab_summary(runs, terminal.width()) + "\n");
  terminal.print("Page: {}\nImages and numbers:\n", names.back());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    terminal.print("  {}, {}\n", names[2 * i], names[2 * i + 1]);
  }
  terminal.write(next_text(flags));
}

ExitStatus run(const LabFlags& flags, const CLI::App& app) {
  if (flags.figures.empty() || names_only(flags, "list")) return list(flags, app);
  std::vector<report::LabRun> runs = plan(flags, app);
  const std::vector<std::string> names = prepare_outputs(flags.out, output_names(runs));
  measure(runs);
  write_all(runs, names, flags.out);
  if (flags.json) {
    print_json(runs, runs.size() > 1 || flags.figures[0] == "all");
  } else {
    print_text(runs, names, flags);
  }
  const bool any_outside = std::ranges::any_of(runs, [](const report::LabRun& run) {
    return run.result.verdict() == lab::Verdict::kOutside;
  });
  return any_outside ? kBadOutcome : kDone;
}

void add(CLI::App& app, const lab::FigureOption& option, lab::FigureOptions& options) {
  const std::string flag(option.flag), help(option.meaning);
  std::visit(
      [&](auto member) {
        using Value = std::remove_cvref_t<decltype(options.*member)>;
        if constexpr (std::is_same_v<Value, std::size_t>) {
          add_count(app, flag, options.*member, help);
        } else if constexpr (std::is_same_v<Value, std::vector<std::size_t>>) {
          add_counts(app, flag, options.*member, help);
        } else {
          add_list(app, flag, options.*member, help)
              ->type_name(placement_names())
              ->option_text("LIST");
        }
      },
      option.member);
}

}  // namespace

Command lab_command(CLI::App& program) {
  const auto flags = std::make_shared<LabFlags>();
  lab::FigureOptions& o = flags->options;
  CLI::App* app = program.add_subcommand(
      "lab", "Plot measurement against theory, figure by figure, with a verdict on each claim");
  std::vector<std::string> names;
  for (const lab::Figure& figure : lab::figures()) names.emplace_back(figure.name);
  app->add_option("FIGURE", flags->figures, "figures to run, or all, or list (default list)")
      ->type_name(fmt::format("{}|all|list", fmt::join(names, "|")))
      ->option_text("...");
  for (const lab::FigureOption& option : lab::figure_options()) add(*app, option, o);
  add_count(*app, "--seed", o.seed, "the first seed (default 0)");
  add_text(*app, flags->text);
  std::vector<std::string_view> bugs;
  for (const lab::SilentBug& bug : lab::silent_bugs()) bugs.push_back(bug.name);
  add_choice(
      *app, "--break", bugs, [&o](std::size_t bug) { o.bug = &lab::silent_bugs()[bug]; },
      "put a silent bug into the measured network")
      ->option_text("BUG");
  add_file(*app, "--out", flags->out, "folder for the results (default out/lab)")->type_name("DIR");
  add_switch(*app, "--json", flags->json, "print one JSON document");
  app->footer(kLabMeaning);
  return {app, [flags, app] { return run(*flags, *app); }};
}

}  // namespace addnorm::cli
