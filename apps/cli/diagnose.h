#pragma once

#include <string>

#include "report/doctor_report.h"

namespace addnorm::cli {

/// Diagnoses what `addnorm doctor TARGET` does without other flags: a run, its settings, a model's
/// folder or file, or a profile. Error for anything else.
report::Diagnosis diagnose(const std::string& target);

}  // namespace addnorm::cli
