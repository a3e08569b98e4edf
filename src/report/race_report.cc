#include "report/race_report.h"

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

std::optional<double> ms_of(const race::RaceResult& result, std::string_view rival) {
  const auto found = std::ranges::find(result.rivals, rival,
                                       [](const race::RivalTime& time) { return time.kind.name; });
  return found == result.rivals.end() ? std::nullopt : found->ms;
}

/// A rival with fresh memory stands where that takes much longer than with memory kept.
Cell rival_cell(const race::RaceResult& result, const race::RivalTime& rival) {
  constexpr double kMuch = 1.5;
  const std::optional<double> kept = ms_of(result, "pytorch");
  const bool says_little =
      !rival.kind.keeps_memory && kept && rival.ms && *rival.ms <= kMuch * *kept;
  return says_little ? Cell{"", Ink::kFaint} : ratio_cell(rival.ms, result.ms);
}

std::vector<Column> columns_of(const race::RaceResult& result) {
  std::vector<Column> columns{{"kernel", Align::kLeft}, {"shape"}, {"ms"}, {"copy"}, {"oneDNN"}};
  for (const race::RivalTime& rival : result.rivals)
    columns.push_back({std::string(rival.kind.title)});
  return columns;
}

std::vector<Cell> row_of(const race::RaceResult& result) {
  std::vector<Cell> row{std::string(result.job.kernel.name), to_text(result.job.shape),
                        fmt::format("{:.{}f}", result.ms, result.ms < 1 ? 5 : 2),
                        fmt::format("{:.0f}%", 100 * result.copy_ms / result.ms),
                        ratio_cell(result.onednn_ms, result.ms)};
  for (const race::RivalTime& rival : result.rivals) row.push_back(rival_cell(result, rival));
  return row;
}

constexpr const char* kLegend =
    "copy: our share of the speed of a copy of the fewest bytes that the work can read and write. "
    "The rest: how many times as long a rival takes; PyTorch with memory that is kept from call to "
    "call, and as it is where page faults make that 1.5 times as long or more.";

}  // namespace

std::string race_json(const race::RaceResult& result) {
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
  for (const race::RivalTime& rival : result.rivals) {
    json[fmt::format("{}_ms", rival.kind.name)] = or_null(rival.ms);
  }
  if (result.job.kernel.in_place) json["in_place"] = true;
  return json.dump();
}

std::string race_text(const std::vector<race::RaceResult>& results, int width) {
  std::string text;
  for (auto begin = results.begin(); begin != results.end();) {
    const race::RaceResult& first = *begin;
    Table table(columns_of(first));
    for (; begin != results.end() && begin->job.dtype == first.job.dtype; ++begin) {
      table.add_row(row_of(*begin));
    }
    const auto threads = static_cast<std::size_t>(first.options.threads);
    text += fmt::format("{} on {}, {}, {}medians of {} in turn\n\n{}\n", first.job.dtype,
                        format_count(threads, "thread"), kernels::instruction_set(),
                        first.job.kernel.in_place ? "in place, " : "", first.options.repeats,
                        to_text(table, width));
  }
  return text + wrap(kLegend, width) + '\n';
}

std::string worst_ratio(const std::vector<race::RaceResult>& results) {
  std::vector<race::RaceResult> raced;
  std::ranges::copy_if(results, std::back_inserter(raced),
                       [](const race::RaceResult& result) { return result.onednn_ms.has_value(); });
  if (raced.empty()) return "";
  const auto ratio = [](const race::RaceResult& result) { return *result.onednn_ms / result.ms; };
  const race::RaceResult& worst = *std::ranges::min_element(raced, {}, ratio);
  return fmt::format("Worst of {}: {} {} {}, where oneDNN takes {:.2f} times as long.\n",
                     raced.size(), worst.job.kernel.name, to_text(worst.job.shape), worst.job.dtype,
                     ratio(worst));
}

}  // namespace addnorm::report
