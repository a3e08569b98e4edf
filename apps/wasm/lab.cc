// The lab's module: figures as JSON. What a function returns is valid until its next call.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/require.h"
#include "report/lab_report.h"
#include "wasm/module.h"

namespace addnorm {
namespace {

/// From {"figure", "layers": […], "width", "seeds", "seed", "placements": […], "bug"}; what is
/// absent is the figure's own.
report::LabRun planned(const nlohmann::json& request) {
  const lab::Figure& figure = lab::find_figure(request.value("figure", ""));
  require(!figure.trains, "{} trains networks, which takes the program: addnorm lab {}",
          figure.name, figure.name);
  const std::string bug = request.value("bug", "");
  const lab::FigureOptions asked{
      .layers = request.value("layers", std::vector<std::size_t>()),
      .width = request.value("width", std::size_t{0}),
      .seeds = request.value("seeds", std::size_t{0}),
      .seed = request.value("seed", std::uint64_t{0}),
      .placements = request.value("placements", std::vector<std::string>()),
      .bug = bug.empty() ? nullptr : &lab::find_silent_bug(bug)};
  return {figure, lab::complete(figure, asked), {}};
}

}  // namespace

/// lab_list_json() of all figures.
ADDNORM_EXPORT(lab_list) const char* lab_list() {
  static std::string list;
  list = report::lab_list_json(lab::figures());
  return list.c_str();
}

/// lab_page_json() of one run.
ADDNORM_EXPORT(lab_run) const char* lab_run(const char* request, std::size_t bytes) {
  static std::string answer;
  const auto json = nlohmann::json::parse(std::string_view(request, bytes), nullptr, false);
  require(json.is_object(), "{} is no request", std::string_view(request, bytes));
  report::LabRun run = planned(json);
  run.result = run.figure.run(run.options);
  answer = report::lab_page_json(run);
  return answer.c_str();
}

}  // namespace addnorm
