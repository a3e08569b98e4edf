#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "report/doctor_words.h"

namespace addnorm::report {

/// Two diagnoses held against each other: of one network before and after a fix, of a model and its
/// port.
struct Comparison {
  /// A number of a layer that both have and that differs by more than a hundredth.
  struct Parting {
    std::size_t layer;
    const LayerColumn* number;
    double one, other;
  };

  std::vector<const doctor::Finding*>
      gone;  ///< what only the first has, by rule and place; no notes
  std::vector<const doctor::Finding*> added;  ///< what only the other has
  bool is_measured = false;                   ///< whether any number by layer is known of both
  std::optional<Parting>
      parting;  ///< the first on the way forward; gradients, which come back, last
  std::vector<doctor::LayerNumbers> multiples;  ///< the other's numbers over the first's
};

/// Both must outlive it. Throws an Error where they have not the same number of layers.
Comparison compare(const Diagnosis& one, const Diagnosis& other);

/// "residual-twice, layers 2 and 3, attention: the stream is added twice …"
std::string group_text(const Group& group);

/// "They part at layer 3: …", or that they do not, or that nothing can be said.
std::string parting_text(const Comparison& comparison);

}  // namespace addnorm::report
