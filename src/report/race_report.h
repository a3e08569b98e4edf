#pragma once

#include <string>
#include <vector>

#include "race/norm_race.h"

namespace addnorm::report {

/// One line of JSON: {"kernel","rows","cols","dtype","threads","isa","ms","copy_ms","onednn_ms",
/// "pytorch_ms"}, null for a rival that was not there, and a key for each other rival.
std::string race_json(const race::RaceResult& result);

/// A table for each type of storage, for a terminal of this width, in full colour and UTF-8.
std::string race_text(const std::vector<race::RaceResult>& results, int width);

/// One line: where oneDNN comes closest to us, or is ahead. "" where oneDNN was nowhere.
std::string worst_ratio(const std::vector<race::RaceResult>& results);

}  // namespace addnorm::report
