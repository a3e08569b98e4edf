#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "report/doctor_words.h"

namespace addnorm::report {

/// A comparison of two diagnoses, such as one network before and after a fix, or a model and its
/// port.
struct Comparison {
  /// A number of a layer that both have and that differs by more than 1 %.
  struct Parting {
    std::size_t layer;
    const LayerColumn* number;
    double one, other;
  };

  std::vector<const doctor::Finding*>
      gone;  ///< findings of the first alone, by rule and place; no notes
  std::vector<const doctor::Finding*> added;  ///< findings of the other alone
  bool is_measured = false;                   ///< whether both have any number by layer
  std::optional<Parting>
      parting;  ///< the first one on the way forward; gradients, which come backward, last
  std::vector<doctor::LayerNumbers> multiples;  ///< the other's numbers ÷ the first's
};

/// Compares two diagnoses, which must outlive the result. Throws an Error if their numbers of
/// layers differ.
Comparison compare(const Diagnosis& one, const Diagnosis& other);

/// Returns "residual-twice, layers 2 and 3, attention: the stream is added twice …".
std::string group_text(const Group& group);

/// Returns "They first differ at layer 3: …", or that they do not part, or that nothing is known.
std::string parting_text(const Comparison& comparison);

}  // namespace addnorm::report
