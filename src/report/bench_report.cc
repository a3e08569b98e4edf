#include "report/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "io/json.h"
#include "kernels/instruction_set.h"
#include "report/numbers.h"
#include "report/table.h"

namespace addnorm::report {
namespace {

Cell ratio_cell(std::optional<double> peer_ms, double ms) {
  if (!peer_ms) return {"–", Ink::kFaint};
  const double ratio = *peer_ms / ms;
  return {fmt::format("×{:.2f}", ratio), ratio < 1 ? Ink::kBad : Ink::kPlain};
}

std::optional<double> ms_of(const bench::Result& result, std::string_view rival) {
  const auto found = std::ranges::find(result.rivals, rival,
                                       [](const bench::RivalTime& time) { return time.kind.name; });
  return found == result.rivals.end() ? std::nullopt : found->ms;
}

/// A rival's cell. With fresh memory it is empty unless its time is much longer than with memory
/// kept.
Cell rival_cell(const bench::Result& result, const bench::RivalTime& rival) {
  constexpr double kMuch = 1.5;
  const std::optional<double> kept = ms_of(result, "pytorch");
  const bool says_little =
      !rival.kind.keeps_memory && kept && rival.ms && *rival.ms <= kMuch * *kept;
  return says_little ? Cell{"", Ink::kFaint} : ratio_cell(rival.ms, result.ms);
}

std::vector<Column> bench_columns(const bench::Result& result) {
  std::vector<Column> columns{{"kernel", Align::kLeft}, {"shape"}, {"ms"}, {"copy"}, {"oneDNN"}};
  for (const bench::RivalTime& rival : result.rivals)
    columns.push_back({std::string(rival.kind.title)});
  return columns;
}

std::vector<Cell> bench_row(const bench::Result& result) {
  std::vector<Cell> row{std::string(result.job.kernel.name), to_text(result.job.shape),
                        fmt::format("{:.{}f}", result.ms, result.ms < 1 ? 5 : 2),
                        fmt::format("{:.0f}%", 100 * result.copy_ms / result.ms),
                        ratio_cell(result.onednn_ms, result.ms)};
  for (const bench::RivalTime& rival : result.rivals) row.push_back(rival_cell(result, rival));
  return row;
}

constexpr const char* kLegend =
    "copy: our speed as a share of the speed of a memory copy of the fewest bytes that the "
    "operation can read and write. Other columns: the time of the other library divided by ours. "
    "PyTorch keeps its memory between calls; \"as it is\" is shown where page faults make it at "
    "least 1.5 times as slow.";

}  // namespace

std::string bench_json(const bench::Result& result) {
  const auto or_null = [](std::optional<double> ms) { return ms ? io::Json(*ms) : io::Json(); };
  io::Json json{{"kernel", result.job.kernel.name},
                {"rows", result.job.shape.rows},
                {"cols", result.job.shape.cols},
                {"dtype", result.job.dtype},
                {"threads", result.options.threads},
                {"isa", kernels::instruction_set()},
                {"ms", result.ms},
                {"copy_ms", result.copy_ms},
                {"onednn_ms", or_null(result.onednn_ms)},
                {"pytorch_ms", io::Json()}};
  for (const bench::RivalTime& rival : result.rivals) {
    json[fmt::format("{}_ms", rival.kind.name)] = or_null(rival.ms);
  }
  if (result.job.kernel.in_place) json["in_place"] = true;
  return json.dump();
}

std::string bench_text(const std::vector<bench::Result>& results, int width) {
  std::string text;
  for (auto begin = results.begin(); begin != results.end();) {
    const bench::Result& first = *begin;
    Table table(bench_columns(first));
    for (; begin != results.end() && begin->job.dtype == first.job.dtype; ++begin) {
      table.add_row(bench_row(*begin));
    }
    const auto threads = static_cast<std::size_t>(first.options.threads);
    text += fmt::format("{} on {}, {}, {}medians of {} in turn\n\n{}\n", first.job.dtype,
                        format_count(threads, "thread"), kernels::instruction_set(),
                        first.job.kernel.in_place ? "in place, " : "", first.options.repeats,
                        to_text(table, width));
  }
  return text + wrap(kLegend, width) + '\n';
}

std::string worst_ratio(const std::vector<bench::Result>& results) {
  std::vector<bench::Result> measured;
  std::ranges::copy_if(results, std::back_inserter(measured),
                       [](const bench::Result& result) { return result.onednn_ms.has_value(); });
  if (measured.empty()) return "";
  const auto ratio = [](const bench::Result& result) { return *result.onednn_ms / result.ms; };
  const bench::Result& worst = *std::ranges::min_element(measured, {}, ratio);
  return fmt::format("Worst of {}: {} {} {}, where oneDNN takes {:.2f} times as long.\n",
                     measured.size(), worst.job.kernel.name, to_text(worst.job.shape),
                     worst.job.dtype, ratio(worst));
}

}  // namespace addnorm::report
