#pragma once

#include <string>

#include "lab/site_trace.h"

namespace addnorm::cli {

/// A trace of any placement for a terminal of this width: the lanes, what is read of them, the
/// norms, the sublayer, what is carried and what is written.
std::string site_trace_text(const lab::SiteTrace& trace, int width);

}  // namespace addnorm::cli
