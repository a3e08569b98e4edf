#include "kernels/instruction_set.h"

#include <hwy/highway.h>

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
constexpr InstructionSet kAll[] = {{"avx512", HWY_AVX3}, {"avx2", HWY_AVX2},
                                   {"sse4", HWY_SSE4},   {"neon", HWY_NEON},
                                   {"wasm", HWY_WASM},   {"scalar", HWY_SCALAR}};

#if HWY_ARCH_WASM  // WebAssembly has one instruction set, and no environment
std::int64_t usable_targets() {
  return HWY_TARGETS;
}
void update(std::int64_t) {}
const char* wanted() {
  return nullptr;
}
#else
const char* wanted() {
  return std::getenv("ADDNORM_CPU");
}
std::int64_t usable_targets() {
  static const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return targets;
}
void update(std::int64_t target) {
  hwy::GetChosenTarget().Update(target);
}
#endif

const InstructionSet* chosen = nullptr;

const InstructionSet* find(std::string_view name) {
  for (const InstructionSet& set : kAll) {
    if ((set.target & usable_targets()) != 0 && (name.empty() || set.name == name)) return &set;
  }
  return nullptr;
}

void use(std::string_view where, std::string_view name) {
  const InstructionSet* set = find(name);
  require(set != nullptr, "{}: there is no instruction set '{}' here, there are {}", where, name,
          instruction_sets());
  chosen = set;
  update(set->target);
}

bool choose_at_first() {
  const char* name = wanted();
  use("ADDNORM_CPU", name == nullptr ? "" : name);
  return true;
}

}  // namespace

std::string_view instruction_sets() {
  static const std::string names = [] {
    std::string list;
    for (const InstructionSet& set : kAll) {
      if ((set.target & usable_targets()) == 0) continue;
      if (!list.empty()) list += ", ";
      list += set.name;
    }
    return list;
  }();
  return names;
}

void choose_instruction_set() {
  [[maybe_unused]] static const bool done = choose_at_first();
}

std::string_view instruction_set() {
  choose_instruction_set();
  return chosen->name;
}

void use_instruction_set(std::string_view name) {
  choose_instruction_set();
  require(!name.empty(), "use_instruction_set: the name is empty");
  use("use_instruction_set", name);
}

}  // namespace addnorm::kernels
