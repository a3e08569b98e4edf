#include "report/accuracy_report.h"

#include <fmt/format.h>

#include "report/table.h"

namespace addnorm::report {
namespace {

/// The errors that docs/numerics.md promises.
constexpr bench::NormErrors kPromised{.y = 2e-6, .dx = 1e-6};

Cell error_cell(const std::optional<bench::NormErrors>& errors, double bench::NormErrors::*which) {
  if (!errors) return {"–", Ink::kFaint};
  const double error = *errors.*which;
  return {fmt::format("{:.1e}", error), error <= kPromised.*which ? Ink::kPlain : Ink::kBad};
}

}  // namespace

std::string accuracy_text(const std::vector<bench::AccuracyResult>& results, int width) {
  Table table({{"features"},
               {"mean/std"},
               {"std"},
               {"y"},
               {"oneDNN"},
               {"PyTorch"},
               {"dx"},
               {"oneDNN"},
               {"PyTorch"}});
  for (const bench::AccuracyResult& result : results) {
    std::vector<Cell> row{std::to_string(result.job.features), fmt::format("{:g}", result.job.mean),
                          fmt::format("{:g}", result.job.deviation)};
    for (const auto which : {&bench::NormErrors::y, &bench::NormErrors::dx}) {
      for (const std::optional<bench::NormErrors>& errors :
           {std::optional(result.ours), result.onednn, result.pytorch}) {
        row.push_back(error_cell(errors, which));
      }
    }
    table.add_row(std::move(row));
  }
  constexpr const char* kLegend =
      "Largest errors of LayerNorm against float64, 64 rows of float32; dx relative to its largest "
      "value. ε is 1e-5, and 0 where std is below 1.";
  return to_text(table, width) + '\n' + wrap(kLegend, width) + '\n';
}

}  // namespace addnorm::report
