#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "kernels/plan.h"

namespace addnorm::kernels {

/// "add_norm_forward 8192x768 bf16, avx2: " and the plan.
std::string describe_call(std::string_view kernel, const Problem& problem, const Machine& machine,
                          const Plan& plan);

/// With ADDNORM_VERBOSE=1 in the environment, prints a call, its plan and its time to standard
/// error when it ends.
class VerboseCall {
 public:
  VerboseCall(std::string_view kernel, const Problem& problem, const Plan& plan);
  ~VerboseCall();
  VerboseCall(const VerboseCall&) = delete;
  VerboseCall& operator=(const VerboseCall&) = delete;

 private:
  std::string_view kernel_;
  const Problem& problem_;
  const Plan& plan_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace addnorm::kernels
