#pragma once

#include <string_view>

#include "wasm/options.h"

namespace addnorm {

/// Measures each token of the stream (stream_sites()) of a stack with initial weights that reads
/// `text` once: a window of context + 1 bytes, as in ByteText. Returns the loss.
double measure_sentence(const Arrangement& arrangement, const SessionOptions& options,
                        std::string_view text, const TokenMeasurement& to);

}  // namespace addnorm
