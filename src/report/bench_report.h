#pragma once

#include <string>
#include <vector>

#include "bench/norm_benchmark.h"

namespace addnorm::report {

/// Returns one line of JSON:
/// {"kernel","rows","cols","dtype","threads","isa","ms","copy_ms","onednn_ms", "pytorch_ms"}, with
/// null for an absent rival, and a key for each other rival.
std::string bench_json(const bench::Result& result);

/// Returns a table for each type of storage, for a terminal of this width, in full colour and
/// UTF-8.
std::string bench_text(const std::vector<bench::Result>& results, int width);

/// Returns one line with the case in which oneDNN is closest to our speed, or ahead; "" without
/// oneDNN.
std::string worst_ratio(const std::vector<bench::Result>& results);

}  // namespace addnorm::report
