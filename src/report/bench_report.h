#pragma once

#include <string>
#include <vector>

#include "bench/norm_benchmark.h"

namespace addnorm::report {

/// One line of JSON: {"kernel","rows","cols","dtype","threads","isa","ms","copy_ms","onednn_ms",
/// "pytorch_ms"}, null for a rival that was not there, and a key for each other rival.
std::string bench_json(const bench::Result& result);

/// A table for each type of storage, for a terminal of this width, in full colour and UTF-8.
std::string bench_text(const std::vector<bench::Result>& results, int width);

/// One line: where oneDNN comes closest to us, or is ahead. "" where oneDNN was nowhere.
std::string worst_ratio(const std::vector<bench::Result>& results);

}  // namespace addnorm::report
