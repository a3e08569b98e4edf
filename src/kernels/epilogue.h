#pragma once

/// The epilogue of Add & Norm: argument checks, and the backward of rows with one.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "addnorm/norm.h"
#include "kernels/argument_memory.h"
#include "kernels/check.h"

namespace addnorm::kernels {

/// Whether this build has epilogues. The tutorial's modules do not use them, and would be a twelfth
/// larger with them.
#ifdef __wasm__
inline constexpr bool kHasEpilogues = false;
#else
inline constexpr bool kHasEpilogues = true;
#endif

/// Throws unless norms of this kind have epilogues, in this build.
void check_has_epilogues(std::string_view where, const NormOptions& options);

/// Throws unless the outputs and the scale of `quantized` fit rows × cols.
void check_quantized(std::string_view where, const Quantized& quantized, std::size_t rows,
                     std::size_t cols);

template <typename Value>
void check_modulation(std::string_view where, const Modulation<Value>& modulation, std::size_t rows,
                      std::size_t cols) {
  if (modulation.empty()) return;
  check_samples(where, "epilogue.modulation", modulation.samples(), rows);
  check_optional_shape(where, "epilogue.modulation.scale", modulation.scale, modulation.samples(),
                       cols);
  check_optional_shape(where, "epilogue.modulation.shift", modulation.shift, modulation.samples(),
                       cols);
}

/// Whether no member of these matrices is set. The checks below take a tenth of a microsecond, so
/// calls without an epilogue skip them.
template <typename... Views>
bool are_unset(const Views&... views) {
  return ((reinterpret_cast<std::uintptr_t>(views.data) | views.rows) | ...) == 0;
}
template <typename S, typename B>
bool is_unset(const Epilogue<S, B>& e) {
  const Quantized& q = e.quantized;
  return are_unset(e.gate.z, e.modulation.scale, e.modulation.shift, q.int8, q.float8, q.q8_0,
                   q.scales, e.unrounded) &&
         q.given_scale == 0;
}
template <typename S, typename B>
bool is_unset(const EpilogueBackward<S, B>& e) {
  return are_unset(e.gate.z, e.modulation.scale, e.modulation.shift, e.dz, e.d_scale, e.d_shift) &&
         e.beta.empty();
}

/// Throws unless the epilogue fits rows × cols.
template <typename S, typename B>
void check_epilogue(std::string_view where, const NormOptions& options,
                    const Epilogue<S, B>& epilogue, std::size_t rows, std::size_t cols) {
  check_optional_shape(where, "epilogue.gate.z", epilogue.gate.z, rows, cols);
  check_optional_shape(where, "epilogue.unrounded", epilogue.unrounded, rows, cols);
  check_quantized(where, epilogue.quantized, rows, cols);
  check_modulation(where, epilogue.modulation, rows, cols);
  if (!epilogue.empty()) check_has_epilogues(where, options);
}
template <typename S, typename B>
void check_epilogue(std::string_view where, const NormOptions& options,
                    const EpilogueBackward<S, B>& epilogue, std::size_t rows, std::size_t cols) {
  const std::size_t samples = epilogue.modulation.samples();
  const Gate<B>& gate = epilogue.gate;
  check_optional_shape(where, "epilogue.gate.z", gate.z, rows, cols);
  check_modulation(where, epilogue.modulation, rows, cols);
  check_optional_length(where, "epilogue.beta", epilogue.beta, cols);
  check_optional_shape(where, "epilogue.dz", epilogue.dz, rows, cols);
  require(epilogue.dz.empty() || !gate.z.empty() || rows == 0,
          "{}: epilogue.gate.z is absent, must be {} × {} for dz", where, rows, cols);
  check_optional_shape(where, "epilogue.d_scale", epilogue.d_scale, samples, cols);
  check_optional_shape(where, "epilogue.d_shift", epilogue.d_shift, samples, cols);
  if (!epilogue.empty()) check_has_epilogues(where, options);
}

/// Adds the inputs of an epilogue to the memory of a call. Returns those of z.
template <typename E>
ArgumentMemory::Set read_inputs(const E& epilogue, ArgumentMemory& memory) {
  memory.read("epilogue.modulation.scale", epilogue.modulation.scale);
  memory.read("epilogue.modulation.shift", epilogue.modulation.shift);
  return memory.read("epilogue.gate.z", epilogue.gate.z);
}
template <typename S, typename B>
void write_outputs(const Epilogue<S, B>& epilogue, ArgumentMemory& memory) {
  memory.write("epilogue.quantized.int8", epilogue.quantized.int8);
  memory.write("epilogue.quantized.float8", epilogue.quantized.float8);
  memory.write("epilogue.quantized.q8_0", epilogue.quantized.q8_0);
  memory.write("epilogue.quantized.scales", epilogue.quantized.scales);
  memory.write("epilogue.unrounded", epilogue.unrounded);
}

/// The rows of each sample of a modulation; all rows without one.
template <typename Value>
std::size_t rows_of_sample(const Modulation<Value>& modulation, std::size_t rows) {
  return rows / std::max<std::size_t>(1, modulation.samples());
}

/// add_norm_backward() with an epilogue, after its checks.
template <typename S, typename B>
void epilogue_backward(std::string_view where, const NormOptions& options,
                       const AddNormBackward<S, B>& args);

}  // namespace addnorm::kernels
