// The lab's module: figures as JSON. A function's result is valid until its next call.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/require.h"
#include "io/json.h"
#include "report/lab_report.h"
#include "wasm/module.h"

namespace addnorm {
namespace {

/// Reads {"translations": {id: [text]}, "decimal_comma": true}.
Language read_language(const io::Json& json) {
  Language language;
  for (const auto& [id, forms] : json.at("translations").items()) {
    language.translations.emplace(id, forms.at(0).get<std::string>());
  }
  language.decimal_comma = json.at("decimal_comma").get<bool>();
  return language;
}

/// Reads {"figure": name} and options for lab::read_options(); missing ones are the figure's own.
report::LabRun planned(io::Json request) {
  const io::Json name = request.value("figure", io::Json());
  require(name.is_string(), "figure: is {}, must be a name", io::excerpt(name));
  const lab::Figure& figure = lab::find_figure(name.get<std::string>());
  require(!figure.trains, "{} trains networks, which takes the program: addnorm lab {}",
          figure.name, figure.name);
  request.erase("figure");
  return {figure, lab::complete(figure, lab::read_options(request)), {}};
}

}  // namespace

/// Returns lab_list_json() of all figures.
ADDNORM_EXPORT(lab_list) const char* lab_list() {
  static std::string list;
  list = report::lab_list_json(lab::figures());
  return list.c_str();
}

/// Returns lab_page_json() of one run, in the request's "language", or in English.
ADDNORM_EXPORT(lab_run) const char* lab_run(const char* request, std::size_t bytes) {
  static std::string answer;
  io::Json json = io::parse_json(std::string_view(request, bytes), "the request");
  const Language language =
      json.contains("language") ? read_language(json["language"]) : Language();
  json.erase("language");
  report::LabRun run = planned(std::move(json));
  run.result = run.figure.run(run.options);
  answer = report::lab_page_json(std::move(run), language);
  return answer.c_str();
}

}  // namespace addnorm
