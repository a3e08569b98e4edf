#include "kernels/verbose.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "kernels/instruction_set.h"

namespace addnorm::kernels {
namespace {

#ifdef __wasm__  // WebAssembly has no environment and no clock
constexpr bool is_verbose() {
  return false;
}
#else
bool is_verbose() {
  static const bool verbose = [] {
    const char* value = std::getenv("ADDNORM_VERBOSE");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return verbose;
}
#endif

}  // namespace

std::string describe_call(std::string_view kernel, const Problem& problem, const Machine& machine,
                          const Plan& plan, std::size_t lanes) {
  const std::string_view type = problem.float16             ? "f16"
                                : problem.stream_bytes == 2 ? "bf16"
                                : problem.stream_bytes == 4 ? "f32"
                                                            : "f64";
  if (lanes > 0) {
    return fmt::format("{} {}x{}x{} {}, {}: {} stores", kernel, problem.rows, lanes,
                       problem.features, type, machine.instruction_set,
                       plan.stores == Stores::kCached ? "cached" : "non-temporal");
  }
  return fmt::format("{} {}x{} {}, {}: {}", kernel, problem.rows, problem.features, type,
                     machine.instruction_set, describe(plan));
}

VerboseCall::VerboseCall(std::string_view kernel, const Problem& problem, const Plan& plan,
                         std::size_t lanes)
    : kernel_(kernel), problem_(problem), plan_(plan), lanes_(lanes) {
  if (is_verbose()) start_ = std::chrono::steady_clock::now();
}

VerboseCall::~VerboseCall() {
  if (!is_verbose()) return;
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start_;
  fmt::print(stderr, "addnorm: {}, {:.3f} ms\n",
             describe_call(kernel_, problem_, machine(), plan_, lanes_), time.count());
}

}  // namespace addnorm::kernels
