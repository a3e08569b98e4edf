#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "doctor/diagnose.h"
#include "doctor/prove.h"

namespace addnorm::report {

/// The doctor's results for one subject.
struct Diagnosis {
  doctor::Subject subject = {};
  std::vector<doctor::Finding> findings = {};  ///< diagnose(subject)
  std::vector<doctor::Proof> proofs = {};      ///< of the remedies that were tried
  std::size_t accepted = 0;                    ///< number of findings omitted by name

  /// Whether any finding is more than a note.
  bool has_defects() const;
  /// Whether everything was measured and no finding is more than a note.
  bool sound() const;
};

/// Diagnoses a subject and omits the findings that `accepted` names, in the form of
/// doctor/accepted.h.
Diagnosis diagnose(doctor::Subject subject, std::span<const std::string> accepted = {});

/// Returns the text for a terminal of this width: findings, worst first, then the measurements by
/// layer.
std::string doctor_text(const Diagnosis& diagnosis, int width);

/// Returns two diagnoses side by side, such as profiles of a network before and after a fix, or of
/// a model and its port. It shows the findings that only one of them has, the layer where they
/// part, and `other`'s numbers by layer as multiples of `one`'s.
std::string comparison_text(const Diagnosis& one, const Diagnosis& other, int width);

/// Returns the diagnosis as one JSON document:
///
///     {"target","status":"sound"|"findings"|"incomplete","model":{…},"loss",
///      "findings":[{"rule","severity","where","layer","sublayer","module","what","because","fix",
///                   "measured","expected"}],"accepted",
///      "coverage":{"sums":[measured,found],…,"left_out":[{"where","why"}]},
///      "proofs":[{"rule","change","steps","number","before","after","mended"}],
///      "effective_depth","layers":[{…}]}
///
/// A finding of the whole network has no layer, and unknown values are null. "incomplete" means
/// that there is no finding except notes, and not everything was measured. A comparison with
/// another diagnosis adds one key:
///
///     "comparison":{"other":{…},"gone":[{…}],"new":[{…}],
///                   "parting":{"layer","number","one","other"},"multiples":[{…}]}
///
/// It has the other's document, findings, a number of "layers", and its quotients.
std::string doctor_json(const Diagnosis& diagnosis, const Diagnosis* other = nullptr);

/// The same with curves, as one page; those of the other are dashed.
std::string doctor_html(const Diagnosis& diagnosis, const Diagnosis* other = nullptr);

}  // namespace addnorm::report
