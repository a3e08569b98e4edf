#include "doctor/diagnose.h"
#include "fuzz.h"
#include "io/profile.h"
#include "report/doctor_report.h"

/// All rules and reports must work for any profile.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz(data, size, [](const std::string& text) {
    for (const addnorm::io::Profile& profile : addnorm::io::parse_profiles(text, "file")) {
      addnorm::report::Diagnosis diagnosis{.subject = {.name = "file", .profile = profile}};
      diagnosis.findings = addnorm::doctor::diagnose(diagnosis.subject);
      addnorm::report::doctor_text(diagnosis, 80);
      addnorm::report::doctor_json(diagnosis);
      addnorm::report::doctor_html(diagnosis);
    }
  });
}
