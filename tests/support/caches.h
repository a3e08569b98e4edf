#pragma once

#include <cstddef>
#include <optional>

#include "kernels/machine.h"

namespace addnorm::testing {

/// Makes kernels plan as on this machine with caches of these sizes in bytes. use_this_machine()
/// ends it.
inline void use_caches(std::size_t last_level, std::optional<std::size_t> l1 = {}) {
  kernels::use_this_machine();
  kernels::Machine other = kernels::machine();
  other.last_level = last_level;
  if (l1) other.l1 = *l1;
  kernels::use_machine(other);
}

}  // namespace addnorm::testing
