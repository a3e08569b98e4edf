#pragma once

#include <string_view>

namespace addnorm::kernels {

/// Returns the vector instructions that the kernels use: "avx512", "avx2", "sse4", "scalar", "neon"
/// or "wasm". They are the best of this machine, or those named by the environment variable
/// ADDNORM_CPU.
std::string_view instruction_set();

/// Selects the instruction set of the kernels. Throws an Error unless the machine has it. Results
/// do not change. For tests and comparisons; no kernel may be running.
void use_instruction_set(std::string_view name);

/// Returns all instruction sets of this machine, the best first, separated by commas.
std::string_view instruction_sets();

}  // namespace addnorm::kernels
