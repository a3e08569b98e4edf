#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace addnorm::kernels {

/// What a plan depends on beside the problem.
struct Machine {
  std::string_view name = "this machine";
  std::string_view instruction_set;  ///< as ADDNORM_CPU names it
  std::size_t l1 = 0;                ///< bytes of a core's first data cache
  std::size_t l2 = 0;                ///< bytes of a core's second cache
  std::size_t last_level = 0;        ///< bytes of the last-level cache that one core can use
  std::size_t cores = 1;
};

/// The machine that plans are made for: this one, detected once, or what use_machine() was given.
Machine machine();

/// From now on plans are made for `machine`. The kernels run on the instruction set in use all the
/// same, and results do not change; for tests and comparisons, while no kernel runs.
void use_machine(const Machine& machine);
void use_this_machine();

/// Machines to print and test plans for.
std::span<const Machine> known_machines();

}  // namespace addnorm::kernels
