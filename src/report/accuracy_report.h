#pragma once

#include <string>
#include <vector>

#include "bench/norm_accuracy.h"

namespace addnorm::report {

/// The largest errors as a table for a terminal of this width, in full colour and UTF-8.
std::string accuracy_text(const std::vector<bench::AccuracyResult>& results, int width);

}  // namespace addnorm::report
