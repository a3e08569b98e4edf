#pragma once

/// Selects a kernel of src/kernels/simd, which is compiled once for each instruction set.
///
///     ADDNORM_DECLARE_KERNEL(template <typename S, typename B> void rows(const Args<S, B>&);)
///     const auto kernel = ADDNORM_KERNEL(S, rows<S, B>);

#include <array>
#include <cstddef>
#include <type_traits>

// CMake writes this file. ADDNORM_FOR_SETS(use, …) expands to use(namespace, …) for each
// instruction set of this library, best first. ADDNORM_BASELINE is the namespace of the last one.
#include "kernels/instruction_sets.inc"

namespace addnorm::kernels {

/// Returns the index of the instruction set in use, in the order of ADDNORM_FOR_SETS.
std::size_t set_in_use();

}  // namespace addnorm::kernels

/// Declares a function template in the namespace of each instruction set.
#define ADDNORM_DECLARE_KERNEL(...) ADDNORM_FOR_SETS(ADDNORM_IN_SET, __VA_ARGS__)
#define ADDNORM_IN_SET(space, ...) \
  namespace space {                \
  __VA_ARGS__                      \
  }

/// The instance of a kernel for the instruction set in use or, for V = double, for the baseline.
/// References to single instances let a linker leave out all others.
#define ADDNORM_KERNEL(V, ...)                                                          \
  [] {                                                                                  \
    if constexpr (std::is_same_v<V, double>) {                                          \
      return &::addnorm::kernels::ADDNORM_BASELINE::__VA_ARGS__;                        \
    } else {                                                                            \
      static constexpr std::array kAll{ADDNORM_FOR_SETS(ADDNORM_ADDRESS, __VA_ARGS__)}; \
      return kAll[kAll.size() == 1 ? 0 : ::addnorm::kernels::set_in_use()];             \
    }                                                                                   \
  }()
#define ADDNORM_ADDRESS(space, ...) &::addnorm::kernels::space::__VA_ARGS__,
