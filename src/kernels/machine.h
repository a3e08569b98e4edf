#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace addnorm::kernels {

/// The properties of a machine that a plan depends on.
struct Machine {
  std::string_view name = "this machine";
  std::string_view instruction_set;  ///< a value of ADDNORM_CPU
  std::size_t l1 = 0;                ///< bytes of a core's first data cache
  std::size_t l2 = 0;                ///< bytes of a core's second cache
  std::size_t last_level = 0;        ///< bytes of the last-level cache that one core can use
  std::size_t cores = 1;
};

/// Returns the machine of the plans: this one, detected once, or the one set by use_machine().
Machine machine();

/// Makes plans for `machine`. The kernels still run on the instruction set in use, and results do
/// not change. For tests and comparisons; no kernel may be running.
void use_machine(const Machine& machine);
void use_this_machine();

/// Returns the machines for which plans are printed and tested.
std::span<const Machine> known_machines();

}  // namespace addnorm::kernels
