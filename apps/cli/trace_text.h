#pragma once

#include <string>

#include "lab/trace.h"

namespace addnorm::cli {

/// Returns a trace for a terminal of this width: the steps of the tutorials with the numbers of
/// each formula, and bars. `args` are the arguments of the trace.
std::string trace_text(const lab::Trace& trace, const lab::TraceArgs& args, int width);

/// Returns the text in ASCII.
std::string spell_out(std::string text);

}  // namespace addnorm::cli
