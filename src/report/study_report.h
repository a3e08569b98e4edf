#pragma once

#include <string>
#include <vector>

#include "lab/study.h"

namespace addnorm::report {

/// A study with its findings.
struct StudyReport {
  const lab::Study& study;
  std::vector<lab::StudyFinding> findings;
  std::vector<lab::StudyClaim> claims;

  explicit StudyReport(const lab::Study& study_)
      : study(study_), findings(lab::study_findings(study_)), claims(lab::study_claims(findings)) {}
};

/// Returns the table, the verdicts and the claims for a terminal of this width, in full colour and
/// UTF-8.
std::string study_text(const StudyReport& report, int width);

/// Returns report.html: one file with the curves as SVG.
std::string study_html(const StudyReport& report);

/// Returns results.json: options, every run's losses, curves by layer, verdicts, claims.
std::string study_json(const StudyReport& report);

/// Returns profile.jsonl: the profile of every model at initialization.
std::string study_profile(const StudyReport& report);

}  // namespace addnorm::report
