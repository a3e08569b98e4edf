#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/options.h"
#include "race/norm_accuracy.h"
#include "race/norm_race.h"
#include "report/accuracy_report.h"
#include "report/race_report.h"
#include "report/terminal.h"

namespace addnorm {
namespace {

constexpr const char* kBenchMeaning =
    R"(Times each kernel, in turn with a copy of as many bytes (half read, half written, by ordinary or
non-temporal stores, whichever is faster), with oneDNN and with PyTorch, all on as many threads.
Backward kernels give dx and the gradients of γ and β; add_… has the residual sum in the same pass,
backward the residual's gradient. oneDNN adds, then normalizes; it has no RMSNorm. Our results must
be oneDNN's, or the race is off. × above 1: addnorm is faster; –: the rival has no such kernel.

PyTorch allocates its results in every call. It is raced with memory that the C library keeps for it
(MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_ and MALLOC_TOP_PAD_), and once more as it is, where
large results are fresh memory each time and page faults take most of that.

--json prints one line for each kernel, shape and type: kernel, rows, cols, dtype, threads, isa, ms,
copy_ms, onednn_ms, pytorch_ms, null where there is no rival, and pytorch_as_is_ms if that is raced.
ADDNORM_CPU forces an instruction set.

--in-place races add_… where the sum overwrites x, and backward dx the residual's gradient, by all
contestants; --json says in_place then.

--sweep races oneDNN on rows 1 to 65536 by features 8 to 16384 in powers of two, up to 2^27 values,
and names the worst ratio; by default add_layer_norm and add_layer_norm_backward.

--accuracy measures no time but the largest errors of LayerNorm and its gradient against float64,
for means up to 1e5 standard deviations, and standard deviations from 1e-30 to 1e30.

Examples:
  addnorm bench --kernel add_layer_norm,add_rms_norm --shape 8192x4096,64x768
  addnorm bench --threads 1 --json > bench.jsonl
  addnorm bench --sweep --repeats 3)";

struct BenchFlags {
  std::vector<std::string> kernels, shapes, dtypes;
  std::uint64_t threads = static_cast<std::uint64_t>(omp_get_max_threads());
  std::uint64_t repeats = RaceOptions{}.repeats;
  std::string python = "/usr/bin/python3";
  bool no_pytorch = false;
  bool in_place = false;
  bool sweep = false;
  bool accuracy = false;
  bool json = false;
};

std::string kernel_names() {
  std::vector<std::string_view> names;
  for (const RaceKernel& kernel : race_kernels()) names.push_back(kernel.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<RaceKernel> chosen_kernels(const BenchFlags& flags) {
  using Names = std::vector<std::string>;
  const std::span<const RaceKernel> all = race_kernels();
  Names names = flags.kernels;
  if (names.empty() && flags.sweep) names = {"add_layer_norm", "add_layer_norm_backward"};
  if (names.empty() || names == Names{"all"}) {
    names.clear();
    for (const RaceKernel& kernel : all) {
      if (kernel.add || !flags.in_place) names.emplace_back(kernel.name);
    }
  }
  std::vector<RaceKernel> kernels;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(all, name, &RaceKernel::name);
    require(found != all.end(), "--kernel: '{}' is unknown; expected all or some of {}", name,
            kernel_names());
    require(found->add || !flags.in_place,
            "--in-place: {} adds nothing that could be overwritten; expected add_{}", name, name);
    kernels.push_back(*found);
    kernels.back().in_place = flags.in_place;
  }
  return kernels;
}

std::vector<RaceShape> chosen_shapes(const BenchFlags& flags) {
  if (flags.sweep) return sweep_shapes();
  if (flags.shapes.empty()) return default_race_shapes();
  std::vector<RaceShape> shapes;
  for (const std::string& text : flags.shapes) shapes.push_back(parse_race_shape(text));
  return shapes;
}

std::vector<std::string> chosen_dtypes(const BenchFlags& flags) {
  const std::vector<std::string> all = race_dtypes();
  for (const std::string& name : flags.dtypes) {
    require(std::ranges::count(all, name) > 0, "--dtype: '{}' is unknown; expected some of {}",
            name, fmt::join(all, ", "));
  }
  return flags.dtypes.empty() ? all : flags.dtypes;
}

/// Every job's result, which `show` gets at once; a bar tells how many are done.
std::vector<RaceResult> race_all(const std::vector<RaceJob>& jobs, const RaceOptions& options,
                                 const TorchRivals& torch,
                                 const std::function<void(const RaceResult&)>& show) {
  Terminal screen(stderr);
  ProgressBar bar(screen, "bench", jobs.size());
  std::vector<RaceResult> results;
  for (const RaceJob& job : jobs) {
    bar.update(results.size(), fmt::format("{} {}", job.kernel.name, to_text(job.shape)));
    results.push_back(race(job, options, torch));
    show(results.back());
  }
  return results;
}

void print_json(const RaceResult& result) {
  fmt::print("{}\n", race_json(result));
  std::fflush(stdout);
}

void tell_problem(const TorchNorm& torch, std::string_view missing) {
  if (torch.problem().empty()) return;
  fmt::print(stderr, "addnorm bench: without PyTorch's {}: {}\n", missing, torch.problem());
}

ExitStatus run_accuracy(const BenchFlags& flags) {
  std::optional<TorchNorm> torch;
  if (!flags.no_pytorch) torch.emplace(flags.python);
  std::vector<AccuracyResult> results;
  for (const AccuracyJob& job : accuracy_jobs()) {
    results.push_back(measure_accuracy(job, torch ? &*torch : nullptr));
  }
  if (torch) tell_problem(*torch, "errors");
  Terminal terminal(stdout);
  terminal.write(accuracy_text(results, terminal.width()));
  return kDone;
}

ExitStatus run(const BenchFlags& flags) {
  require(flags.threads >= 1 && flags.threads <= 1024, "--threads: is {}; expected 1 to 1024",
          flags.threads);
  require(flags.repeats >= 1, "--repeats: is {}; expected at least 1", flags.repeats);
  const std::vector<RaceJob> jobs =
      race_jobs(chosen_kernels(flags), chosen_shapes(flags), chosen_dtypes(flags));
  std::optional<TorchNorm> kept, as_is;
  TorchRivals torch;
  if (!flags.no_pytorch && !flags.sweep) {
    torch = {.kept = &kept.emplace(flags.python, TorchMemory::kKept),
             .as_is = &as_is.emplace(flags.python, TorchMemory::kAsIs)};
  }
  const std::vector<RaceResult> results =
      race_all(jobs, {.threads = static_cast<int>(flags.threads), .repeats = flags.repeats}, torch,
               [&](const RaceResult& result) {
                 if (flags.json) print_json(result);
               });

  if (kept) tell_problem(*kept, "times");
  if (flags.json) return kDone;
  Terminal terminal(stdout);
  terminal.write(race_text(results, terminal.width()));
  if (flags.sweep) terminal.print("\n{}", worst_ratio(results));
  return kDone;
}

CLI::Option* add_list(CLI::App& app, const std::string& flag, std::vector<std::string>& list,
                      const std::string& help) {
  return app.add_option(flag, list, help)->delimiter(',')->type_name("LIST");
}

}  // namespace

Command bench_command(CLI::App& program) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App* app =
      program.add_subcommand("bench", "Race the kernels against a copy, oneDNN and PyTorch");
  add_list(*app, "--kernel", flags->kernels,
           "some of [add_]{layer,rms}_norm[_backward] (default all)");
  CLI::Option* shape = add_list(*app, "--shape", flags->shapes,
                                "rows and features (default: six shapes from 8192x4096 to 16x512)");
  add_list(*app, "--dtype", flags->dtypes,
           fmt::format("types of storage (default {})", fmt::join(race_dtypes(), ",")));
  add_count(*app, "--threads", flags->threads, "of each contestant (default: all)");
  add_count(*app, "--repeats", flags->repeats, "samples, of which the median counts (default 9)");
  add_switch(*app, "--in-place", flags->in_place, "the stream and its gradient are overwritten");
  add_switch(*app, "--sweep", flags->sweep, "every shape, against oneDNN")->excludes(shape);
  add_file(*app, "--python", flags->python, "which has PyTorch (default /usr/bin/python3)");
  add_switch(*app, "--no-pytorch", flags->no_pytorch, "leave PyTorch out");
  add_switch(*app, "--json", flags->json, "print JSON lines");
  CLI::Option* accuracy =
      add_switch(*app, "--accuracy", flags->accuracy, "largest errors instead of times");
  for (const char* other : {"--kernel", "--shape", "--dtype", "--threads", "--repeats",
                            "--in-place", "--sweep", "--json"}) {
    accuracy->excludes(app->get_option(other));
  }
  app->footer(kBenchMeaning);
  return {app, [flags] { return flags->accuracy ? run_accuracy(*flags) : run(*flags); }};
}

}  // namespace addnorm
