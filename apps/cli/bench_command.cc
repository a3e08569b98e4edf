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

#include "base/find_named.h"
#include "bench/norm_accuracy.h"
#include "bench/norm_benchmark.h"
#include "cli/command.h"
#include "cli/options.h"
#include "kernels/aliasing.h"
#include "kernels/machine.h"
#include "kernels/plan.h"
#include "kernels/verbose.h"
#include "report/accuracy_report.h"
#include "report/bench_report.h"
#include "report/terminal.h"

namespace addnorm::cli {
namespace {

constexpr const char* kBenchMeaning =
    R"(Times each kernel alternately with a copy of as many bytes (half read, half written, by ordinary
or non-temporal stores, whichever is faster), with oneDNN, and with libraries in Python, all on the
same number of threads. Backward kernels give dx and the gradients of γ and β; add_… has the residual
sum in the same pass, backward the residual's gradient. oneDNN adds, then normalizes; it has no
RMSNorm. If our results differ from oneDNN's, the benchmark stops. × above 1: addnorm is faster; –: the
library has no such kernel.

Other libraries, run by the Python that --python names:
  pytorch        PyTorch, operator by operator. It allocates its results in every call, so the C
                 library is configured to keep that memory (MALLOC_MMAP_THRESHOLD_,
                 MALLOC_TRIM_THRESHOLD_ and MALLOC_TOP_PAD_), as for all libraries except the next
  pytorch_as_is  large results use fresh memory in each call; page faults take most of the time
  torch_compile  torch.compile, since PyTorch 2. It compiles each kernel for each shape, which takes
                 a while
  onnxruntime    ONNX Runtime's (Skip)LayerNormalization, forward

--json prints one line for each kernel, shape and type: kernel, rows, cols, dtype, threads, isa, ms,
copy_ms, onednn_ms, pytorch_ms, and a key of that form for each other library, null where it has no
such kernel. ADDNORM_CPU forces an instruction set.

--in-place times add_… with the sum written over x, and backward with dx written over the residual's
gradient, for all libraries; --json then has in_place.

--sweep compares with oneDNN on rows 1 to 65536 by features 8 to 16384 in powers of two, up to 2^27
values, and prints the worst ratio; by default for add_layer_norm and add_layer_norm_backward, and
with no library in Python.

--plan runs no kernel. It prints how each kernel would process its rows: loop, rows at a time, columns
at a time, prefetch distance and stores (docs/kernels.md), on this machine or on --machine.

--accuracy measures the largest errors of LayerNorm and its gradient against float64 instead of times,
for means up to 1e5 standard deviations, and standard deviations from 1e-30 to 1e30.

Examples:
  addnorm bench --kernel add_layer_norm,add_rms_norm --shape 8192x4096,64x768
  addnorm bench --threads 1 --json > bench.jsonl
  addnorm bench --rival pytorch,torch_compile,onnxruntime --dtype f32
  addnorm bench --sweep --repeats 3
  addnorm bench --plan --machine zen4 --shape 8192x768 --dtype bf16)";

struct BenchFlags {
  std::vector<std::string> kernels, shapes, dtypes, rivals;
  std::uint64_t threads = static_cast<std::uint64_t>(omp_get_max_threads());
  std::uint64_t repeats = bench::Options{}.repeats;
  std::string python = "/usr/bin/python3";
  bool in_place = false;
  bool sweep = false;
  bool accuracy = false;
  bool plan = false;
  std::string machine;
  bool json = false;
};

std::string kernel_names() {
  std::vector<std::string_view> names;
  for (const bench::Kernel& kernel : bench::all_kernels()) names.push_back(kernel.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<bench::Kernel> chosen_kernels(const BenchFlags& flags) {
  using Names = std::vector<std::string>;
  const std::span<const bench::Kernel> all = bench::all_kernels();
  Names names = flags.kernels;
  if (names.empty() && flags.sweep) names = {"add_layer_norm", "add_layer_norm_backward"};
  if (names.empty() || names == Names{"all"}) {
    names.clear();
    for (const bench::Kernel& kernel : all) {
      if (kernel.add || !flags.in_place) names.emplace_back(kernel.name);
    }
  }
  std::vector<bench::Kernel> kernels;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(all, name, &bench::Kernel::name);
    require(found != all.end(), "--kernel: '{}' is unknown; expected all or some of {}", name,
            kernel_names());
    require(found->add || !flags.in_place,
            "--in-place: {} has no sum to overwrite; expected add_{}", name, name);
    kernels.push_back(*found);
    kernels.back().in_place = flags.in_place;
  }
  return kernels;
}

std::vector<bench::Shape> chosen_shapes(const BenchFlags& flags) {
  if (flags.sweep) return bench::sweep_shapes();
  if (flags.shapes.empty()) return bench::default_shapes();
  std::vector<bench::Shape> shapes;
  for (const std::string& text : flags.shapes) shapes.push_back(bench::parse_shape(text));
  return shapes;
}

std::vector<std::string> chosen_dtypes(const BenchFlags& flags) {
  const std::vector<std::string> all = bench::all_dtypes();
  for (const std::string& name : flags.dtypes) {
    require(std::ranges::count(all, name) > 0, "--dtype: '{}' is unknown; expected some of {}",
            name, fmt::join(all, ", "));
  }
  return flags.dtypes.empty() ? all : flags.dtypes;
}

std::vector<std::string_view> rival_names() {
  std::vector<std::string_view> names;
  for (const bench::PythonRivalKind& kind : bench::python_rival_kinds()) names.push_back(kind.name);
  return names;
}

/// Returns the rivals of --rival; by default PyTorch with either memory setting.
std::vector<bench::PythonRivalKind> chosen_rivals(const BenchFlags& flags) {
  using Names = std::vector<std::string>;
  Names names = flags.rivals;
  if (names.empty() && !flags.sweep) names = {"pytorch", "pytorch_as_is"};
  if (names == Names{"none"}) names.clear();
  std::vector<bench::PythonRivalKind> kinds;
  for (const std::string& name : names) {
    const auto found =
        std::ranges::find(bench::python_rival_kinds(), name, &bench::PythonRivalKind::name);
    require(found != bench::python_rival_kinds().end(),
            "--rival: '{}' is unknown; expected none or some of {}", name,
            fmt::join(rival_names(), ", "));
    kinds.push_back(*found);
  }
  return kinds;
}

using Rivals = std::vector<std::unique_ptr<bench::PythonRival>>;

/// Returns every job's result, and passes each to `show` at once; a bar shows the progress.
std::vector<bench::Result> time_all(const std::vector<bench::Job>& jobs,
                                    const bench::Options& options, const Rivals& rivals,
                                    const std::function<void(const bench::Result&)>& show) {
  report::Terminal screen(stderr);
  report::ProgressBar bar(screen, "bench", jobs.size());
  std::vector<bench::Result> results;
  for (const bench::Job& job : jobs) {
    bar.update(results.size(), fmt::format("{} {}", job.kernel.name, to_text(job.shape)));
    results.push_back(bench::run_benchmark(job, options, rivals));
    show(results.back());
  }
  return results;
}

void print_json(const bench::Result& result) {
  fmt::print("{}\n", report::bench_json(result));
  std::fflush(stdout);
}

void report_problem(const bench::PythonRival& rival, std::string_view missing) {
  if (rival.problem().empty()) return;
  report::Terminal(stderr).print("addnorm bench: without {}'s {}: {}\n", rival.kind().name, missing,
                                 rival.problem());
}

ExitStatus run_accuracy(const BenchFlags& flags) {
  std::optional<bench::PythonRival> torch;
  for (const bench::PythonRivalKind& kind : chosen_rivals(flags)) {
    if (kind.name == "pytorch") torch.emplace(flags.python, kind);
  }
  std::vector<bench::AccuracyResult> results;
  for (const bench::AccuracyJob& job : bench::accuracy_jobs()) {
    results.push_back(bench::measure_accuracy(job, torch ? &*torch : nullptr));
  }
  if (torch) report_problem(*torch, "errors");
  report::Terminal terminal(stdout);
  terminal.write(report::accuracy_text(results, terminal.width()));
  return kDone;
}

/// Returns the job as a kernel sees it, with rows that begin cache lines.
kernels::Problem problem_of(const bench::Job& job) {
  const bench::Kernel& kernel = job.kernel;
  const std::size_t bytes = job.dtype == "f32" ? 4 : 2;
  const std::size_t moved = (kernel.backward ? 3 : 2) +
                            (kernel.add ? (kernel.backward ? 1 : 2) : 0) -
                            (kernel.in_place ? 1 : 0);
  return {
      .direction = kernel.backward ? kernels::Direction::kBackward : kernels::Direction::kForward,
      .stream_bytes = bytes,
      .rows = job.shape.rows,
      .features = job.shape.cols,
      .bytes = moved * bytes * job.shape.rows * job.shape.cols,
      .adds = kernel.add,
      .float16 = job.dtype == "f16",
      .in_place = kernel.in_place,
      .aligned = job.shape.cols * bytes % kernels::kLine == 0};
}

kernels::Machine chosen_machine(const std::string& name) {
  return name.empty() ? kernels::machine()
                      : find_named(kernels::known_machines(), "--machine:", name);
}

ExitStatus print_plans(const BenchFlags& flags) {
  const kernels::Machine machine = chosen_machine(flags.machine);
  for (const bench::Job& job :
       bench::all_jobs(chosen_kernels(flags), chosen_shapes(flags), chosen_dtypes(flags))) {
    const kernels::Problem problem = problem_of(job);
    fmt::print("{}\n", kernels::describe_call(job.kernel.name, problem, machine,
                                              kernels::plan(problem, machine)));
  }
  return kDone;
}

ExitStatus run(const BenchFlags& flags) {
  require(flags.threads >= 1 && flags.threads <= 1024, "--threads: is {}; expected 1 to 1024",
          flags.threads);
  require(flags.repeats >= 1, "--repeats: is {}; expected at least 1", flags.repeats);
  const std::vector<bench::Job> jobs =
      bench::all_jobs(chosen_kernels(flags), chosen_shapes(flags), chosen_dtypes(flags));
  Rivals rivals;
  for (const bench::PythonRivalKind& kind : chosen_rivals(flags)) {
    rivals.push_back(std::make_unique<bench::PythonRival>(flags.python, kind));
  }
  const std::vector<bench::Result> results =
      time_all(jobs, {.threads = static_cast<int>(flags.threads), .repeats = flags.repeats}, rivals,
               [&](const bench::Result& result) {
                 if (flags.json) print_json(result);
               });

  for (const auto& rival : rivals) report_problem(*rival, "times");
  if (flags.json) return kDone;
  report::Terminal terminal(stdout);
  terminal.write(report::bench_text(results, terminal.width()));
  if (flags.sweep) terminal.print("\n{}", report::worst_ratio(results));
  return kDone;
}

}  // namespace

Command bench_command(CLI::App& program) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App* app = program.add_subcommand(
      "bench", "Compare the kernels with a copy, oneDNN, PyTorch and ONNX Runtime");
  add_list(*app, "--kernel", flags->kernels,
           "some of [add_]{layer,rms}_norm[_backward] (default all)");
  CLI::Option* shape = add_list(*app, "--shape", flags->shapes,
                                "rows and features (default: six shapes from 8192x4096 to 16x512)");
  add_list(*app, "--dtype", flags->dtypes,
           fmt::format("storage types (default {})", fmt::join(bench::all_dtypes(), ",")));
  add_count(*app, "--threads", flags->threads, "threads for each library (default: all)");
  add_count(*app, "--repeats", flags->repeats,
            "number of samples; the median is reported (default 9)");
  add_switch(*app, "--in-place", flags->in_place, "overwrite the stream and its gradient");
  add_switch(*app, "--sweep", flags->sweep, "compare every shape with oneDNN")->excludes(shape);
  add_list(*app, "--rival", flags->rivals,
           fmt::format("libraries in Python: none, or some of {} (default the first two)",
                       fmt::join(rival_names(), ",")));
  add_file(*app, "--python", flags->python,
           "Python with the other libraries (default /usr/bin/python3)");
  add_switch(*app, "--json", flags->json, "print JSON lines");
  CLI::Option* plan =
      add_switch(*app, "--plan", flags->plan, "print how the kernels would process their rows");
  app->add_option("--machine", flags->machine, "machine for --plan (default: this one)")
      ->type_name("NAME")
      ->needs(plan);
  CLI::Option* accuracy =
      add_switch(*app, "--accuracy", flags->accuracy, "print the largest errors instead of times");
  for (const char* other : {"--kernel", "--shape", "--dtype", "--threads", "--repeats",
                            "--in-place", "--sweep", "--json", "--plan"}) {
    accuracy->excludes(app->get_option(other));
  }
  app->footer(kBenchMeaning);
  return {app, [flags] {
            if (flags->plan) return print_plans(*flags);
            return flags->accuracy ? run_accuracy(*flags) : run(*flags);
          }};
}

}  // namespace addnorm::cli
