#include "kernels/instruction_set.h"

#include <hwy/targets.h>

#include <cstdlib>
#include <string>

#include "base/require.h"
#include "kernels/kernel_table.h"

namespace addnorm::kernels {

// CMake generates a file with ADDNORM_SET(name, Highway's target, its namespace) for each
// instruction set that this library was built with, the widest first and the baseline last.
#define ADDNORM_SET(name, target, space) \
  namespace space {                      \
  const KernelTable& kernel_table();     \
  }
#include "kernels/instruction_sets.inc"
#undef ADDNORM_SET

namespace {

struct InstructionSet {
  std::string_view name;
  std::int64_t target;
  const KernelTable& (*kernels)();
};
#define ADDNORM_SET(name, target, space) {name, target, &space::kernel_table},
constexpr InstructionSet kAll[] = {
#include "kernels/instruction_sets.inc"
};
#undef ADDNORM_SET
constexpr const InstructionSet& kBaseline = kAll[std::size(kAll) - 1];

#if HWY_ARCH_WASM  // WebAssembly has one instruction set, and no environment
const char* wanted() {
  return nullptr;
}
bool is_usable(const InstructionSet&) {
  return true;
}
#else
const char* wanted() {
  return std::getenv("ADDNORM_CPU");
}
bool is_usable(const InstructionSet& set) {
  static const std::int64_t targets = hwy::SupportedTargets();
  return &set == &kBaseline || (set.target & targets) != 0;
}
#endif

struct Chosen {
  const InstructionSet* set;
  const KernelTable* kernels;
};
Chosen chosen = {};

/// Chooses a set; an empty name means the best one that is usable.
void use(std::string_view where, std::string_view name) {
  for (const InstructionSet& set : kAll) {
    if (!is_usable(set) || !(name.empty() || set.name == name)) continue;
    chosen = {&set, &set.kernels()};
    return;
  }
  fail(fmt::format("{}: there is no instruction set '{}' here, there are {}", where, name,
                   instruction_sets()));
}

/// Chooses the set that ADDNORM_CPU names, once.
void choose_at_first() {
  [[maybe_unused]] static const bool is_done = [] {
    const char* name = wanted();
    use("ADDNORM_CPU", name == nullptr ? "" : name);
    return true;
  }();
}

}  // namespace

const KernelTable& kernels() {
  choose_at_first();
  return *chosen.kernels;
}

const KernelTable& baseline_kernels() {
  static const KernelTable& table = kBaseline.kernels();
  return table;
}

std::string_view instruction_sets() {
  static const std::string names = [] {
    std::string list;
    for (const InstructionSet& set : kAll) {
      if (!is_usable(set)) continue;
      if (!list.empty()) list += ", ";
      list += set.name;
    }
    return list;
  }();
  return names;
}

std::string_view instruction_set() {
  choose_at_first();
  return chosen.set->name;
}

void use_instruction_set(std::string_view name) {
  choose_at_first();
  require(!name.empty(), "use_instruction_set: the name is empty");
  use("use_instruction_set", name);
}

}  // namespace addnorm::kernels
