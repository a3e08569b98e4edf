#pragma once

#include <string>

#include "lab/site_trace.h"

namespace addnorm::cli {

/// Returns a trace of any placement for a terminal of this width: the lanes, the mixes that are
/// read, the norms, the sublayer, the carry and the write.
std::string site_trace_text(const lab::SiteTrace& trace, int width);

}  // namespace addnorm::cli
