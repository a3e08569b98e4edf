#pragma once

#include <cstddef>
#include <vector>

#include "addnorm/nn/probe.h"
#include "doctor/subject.h"

namespace addnorm::doctor {

/// The numbers of one layer at a step; NaN if not measured.
struct LayerNumbers {
  std::size_t layer = 0;
  double stream = Subject::kUnknown;        ///< RMS of its input
  double attention = Subject::kUnknown;     ///< gain·f ÷ skip·x in its sum; unknown if learned
  double feed_forward = Subject::kUnknown;  ///< likewise
  double middle = Subject::kUnknown;        ///< RMS of the feed-forward's input
  double cosine = Subject::kUnknown;        ///< cosine of its input and its output
  double tokens = Subject::kUnknown;        ///< token similarity of its input
  double logits = Subject::kUnknown;        ///< largest logit of attention
  double entropy = Subject::kUnknown;       ///< of attention: 1 for equal weights
  double gradient = Subject::kUnknown;      ///< RMS of the input's gradient
};
std::vector<LayerNumbers> layer_numbers(const Subject& subject, std::size_t step);

}  // namespace addnorm::doctor
