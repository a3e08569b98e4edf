#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "kernels/plan.h"

namespace addnorm::kernels {

/// Returns "add_norm_forward 8192x768 bf16, avx2: " and the plan. For lanes the shape is rows x
/// lanes x features, and the plan only shows the stores, the only choice of those kernels.
std::string describe_call(std::string_view kernel, const Problem& problem, const Machine& machine,
                          const Plan& plan, std::size_t lanes = 0);

/// With ADDNORM_VERBOSE=1 in the environment, prints a call, its plan and its time to standard
/// error when it ends. `lanes` is x's number of lanes, 0 for a matrix.
class VerboseCall {
 public:
  VerboseCall(std::string_view kernel, const Problem& problem, const Plan& plan,
              std::size_t lanes = 0);
  ~VerboseCall();
  VerboseCall(const VerboseCall&) = delete;
  VerboseCall& operator=(const VerboseCall&) = delete;

 private:
  std::string_view kernel_;
  const Problem& problem_;
  const Plan& plan_;
  std::size_t lanes_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace addnorm::kernels
