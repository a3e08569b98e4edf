#pragma once

#include <string>

#include "lab/trace.h"

namespace addnorm::cli {

/// A trace for a terminal of this width: the steps of the tutorials with the numbers of each
/// formula filled in, and bars. `args` is what the trace was made from.
std::string trace_text(const lab::Trace& trace, const lab::TraceArgs& args, int width);

/// The same text where there is no other alphabet than ASCII's.
std::string spell_out(std::string text);

}  // namespace addnorm::cli
