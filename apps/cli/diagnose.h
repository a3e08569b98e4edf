#pragma once

#include <string>

#include "report/doctor_report.h"

namespace addnorm::cli {

/// Returns the diagnosis of `addnorm doctor TARGET` without other flags. TARGET is a run, its
/// settings, a model's folder or file, or a profile; anything else throws an Error.
report::Diagnosis diagnose(const std::string& target);

}  // namespace addnorm::cli
