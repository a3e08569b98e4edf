// The lab's module: figures as JSON. What a function returns is valid until its next call.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/require.h"
#include "report/lab_report.h"
#include "wasm/module.h"

namespace addnorm {
namespace {

/// From {"figure": name} with lab::read_options(); what is absent is the figure's own.
report::LabRun planned(nlohmann::ordered_json request) {
  const lab::Figure& figure = lab::find_figure(request.value("figure", ""));
  require(!figure.trains, "{} trains networks, which takes the program: addnorm lab {}",
          figure.name, figure.name);
  request.erase("figure");
  return {figure, lab::complete(figure, lab::read_options(request)), {}};
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
  auto json = nlohmann::ordered_json::parse(std::string_view(request, bytes), nullptr, false);
  require(json.is_object(), "{} is no request", std::string_view(request, bytes));
  report::LabRun run = planned(std::move(json));
  run.result = run.figure.run(run.options);
  answer = report::lab_page_json(run);
  return answer.c_str();
}

}  // namespace addnorm
