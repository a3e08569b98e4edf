// The doctor for a profile, a run or a model: the rules, and the program's reports.

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/require.h"
#include "call.h"
#include "cli/diagnose.h"
#include "doctor/open_model.h"
#include "doctor/rule_names.h"
#include "io/profile.h"
#include "model/family_facts.h"
#include "report/doctor_report.h"
#include "report/doctor_words.h"
#include "report/terminal.h"

namespace addnorm::python {
namespace {

using report::Diagnosis;

/// The diagnoses that Python's objects refer to by their numbers.
class Diagnoses {
 public:
  std::size_t add(Diagnosis diagnosis) {
    const std::lock_guard lock(mutex_);
    all_.emplace(++last_, std::make_shared<Diagnosis>(std::move(diagnosis)));
    return last_;
  }
  std::shared_ptr<const Diagnosis> at(std::size_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(number);
    require(found != all_.end(), "there is no diagnosis {}", number);
    return found->second;
  }
  void release(std::size_t number) {
    const std::lock_guard lock(mutex_);
    all_.erase(number);
  }

 private:
  std::mutex mutex_;
  std::size_t last_ = 0;
  std::map<std::size_t, std::shared_ptr<const Diagnosis>> all_;
};

Diagnoses& diagnoses() {
  static Diagnoses all;
  return all;
}

/// Reads the number of a diagnosis; null means none.
std::shared_ptr<const Diagnosis> read_diagnosis(const Json& number) {
  return number.is_null() ? nullptr : diagnoses().at(number.get<std::size_t>());
}

/// The arguments are the text of a profile and its name. Returns the number of its diagnosis, which
/// has no findings yet.
std::string call_open_profile(const Json& arguments, Progress /*progress*/) {
  Diagnosis diagnosis{.subject = doctor::read_profile_text(arguments.at(0).get<std::string>(),
                                                           arguments.at(1).get<std::string>())};
  return std::to_string(diagnoses().add(std::move(diagnosis)));
}

/// The argument is the path of a target of `addnorm doctor`. Returns the number of its diagnosis.
std::string call_open_target(const Json& arguments, Progress /*progress*/) {
  return std::to_string(diagnoses().add(cli::diagnose(bytes_of(arguments.at(0)))));
}

/// Diagnoses a subject again and leaves out the findings that the names accept.
std::string call_accepting(const Json& arguments, Progress /*progress*/) {
  const auto accepted = arguments.at(1).get<std::vector<std::string>>();
  return std::to_string(
      diagnoses().add(report::diagnose(read_diagnosis(arguments.at(0))->subject, accepted)));
}

std::string call_release(const Json& arguments, Progress /*progress*/) {
  diagnoses().release(arguments.at(0).get<std::size_t>());
  return {};
}

std::string call_profile(const Json& arguments, Progress /*progress*/) {
  const io::Profile& profile = read_diagnosis(arguments.at(0))->subject.profile;
  return io::profile_json_lines(profile.model, profile.entries) + io::check_lines(profile.checks);
}

/// Returns whether it is sound, the verdict, and for each group of findings in the text the index
/// of the worst one and all places.
std::string call_summary(const Json& arguments, Progress /*progress*/) {
  const auto diagnosis = read_diagnosis(arguments.at(0));
  Json groups = Json::array();
  for (const report::Group& group : report::grouped(diagnosis->findings)) {
    groups.push_back({&group.worst() - diagnosis->findings.data(), places(group)});
  }
  return Json{
      {"sound", diagnosis->sound()}, {"verdict", verdict(*diagnosis).text}, {"groups", groups}}
      .dump();
}

/// The arguments are a diagnosis, the width, whether in colour, and another diagnosis or null.
std::string call_text(const Json& arguments, Progress /*progress*/) {
  const auto diagnosis = read_diagnosis(arguments.at(0)), other = read_diagnosis(arguments.at(3));
  const int width = arguments.at(1).get<int>();
  std::string text = report::doctor_text(*diagnosis, width);
  if (other != nullptr) text += "\n" + report::comparison_text(*diagnosis, *other, width);
  const bool in_color = arguments.at(2).get<bool>();
  return report::adapt(
      text, {.color = in_color ? report::Color::kOn : report::Color::kOff, .width = width});
}

std::string call_json(const Json& arguments, Progress /*progress*/) {
  return report::doctor_json(*read_diagnosis(arguments.at(0)),
                             read_diagnosis(arguments.at(1)).get());
}

std::string call_html(const Json& arguments, Progress /*progress*/) {
  return report::doctor_html(*read_diagnosis(arguments.at(0)),
                             read_diagnosis(arguments.at(1)).get());
}

std::string call_is_profile(const Json& arguments, Progress /*progress*/) {
  return Json(doctor::is_profile(bytes_of(arguments.at(0)))).dump();
}

/// Returns the known facts of a family of models; numbers and kinds that are unknown have no key.
std::string call_family_facts(const Json& arguments, Progress /*progress*/) {
  const model::FamilyFacts facts = model::family_facts(arguments.at(0).get<std::string>());
  Json found{{"has_scaled_scores", facts.has_scaled_scores},
             {"has_scaled_projections", facts.has_scaled_projections},
             {"has_normalized_stream", facts.has_normalized_stream},
             {"has_router_gradient", facts.has_router_gradient}};
  if (facts.norm) found["norm"] = to_string(*facts.norm);
  if (facts.gamma_form) found["gamma_form"] = to_string(*facts.gamma_form);
  if (facts.epsilons[0] > 0) found["epsilons"] = facts.epsilons;
  return found.dump();
}

std::string call_check_accepted(const Json& arguments, Progress /*progress*/) {
  doctor::check_accepted(arguments.at(0).get<std::vector<std::string>>());
  return {};
}

std::string call_rule_names(const Json& /*arguments*/, Progress /*progress*/) {
  return Json(doctor::rule_names()).dump();
}

constexpr Function kDoctorFunctions[] = {{"open_profile", call_open_profile},
                                         {"open_target", call_open_target},
                                         {"accepting", call_accepting},
                                         {"release", call_release},
                                         {"profile", call_profile},
                                         {"summary", call_summary},
                                         {"text", call_text},
                                         {"json", call_json},
                                         {"html", call_html},
                                         {"is_profile", call_is_profile},
                                         {"family_facts", call_family_facts},
                                         {"check_accepted", call_check_accepted},
                                         {"rule_names", call_rule_names}};

}  // namespace

std::span<const Function> doctor_functions() {
  return kDoctorFunctions;
}

}  // namespace addnorm::python
