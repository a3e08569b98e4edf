#pragma once

#include <string_view>

namespace addnorm::kernels {

/// The vector instructions that the kernels run on: "avx512", "avx2", "sse4", "scalar", "neon" or
/// "wasm". The best that this machine has, or what the environment variable ADDNORM_CPU names.
std::string_view instruction_set();

/// From now on the kernels run on `name`. Throws unless the machine has it. Results do not change;
/// for tests and comparisons, while no kernel runs.
void use_instruction_set(std::string_view name);

/// Every one that this machine has, the best first, separated by commas.
std::string_view instruction_sets();

}  // namespace addnorm::kernels
