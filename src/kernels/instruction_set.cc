#include "kernels/instruction_set.h"

#include <hwy/targets.h>

#include <cstdlib>
#include <string>

#include "base/require.h"
#include "kernels/dispatch.h"

namespace addnorm::kernels {

namespace {

struct InstructionSet {
  std::string_view name;
  std::int64_t target;
};
constexpr InstructionSet kAll[] = {ADDNORM_SET_NAMES};

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
  const bool is_baseline = &set == std::end(kAll) - 1;
  return is_baseline || (set.target & targets) != 0;
}
#endif

const InstructionSet* chosen = nullptr;

/// Chooses a set; an empty name means the best one that is usable.
void use(std::string_view where, std::string_view name) {
  for (const InstructionSet& set : kAll) {
    if (!is_usable(set) || !(name.empty() || set.name == name)) continue;
    chosen = &set;
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

std::size_t set_in_use() {
  choose_at_first();
  return static_cast<std::size_t>(chosen - kAll);
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
  return chosen->name;
}

void use_instruction_set(std::string_view name) {
  choose_at_first();
  require(!name.empty(), "use_instruction_set: the name is empty");
  use("use_instruction_set", name);
}

}  // namespace addnorm::kernels
