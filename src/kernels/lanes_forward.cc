#include "addnorm/lanes.h"
#include "base/parallel.h"
#include "kernels/dispatch.h"
#include "kernels/lanes.h"
#include "kernels/plan.h"
#include "kernels/storages.h"
#include "kernels/verbose.h"

namespace addnorm::kernels {

/// Computes rows begin … end − 1.
ADDNORM_DECLARE_KERNEL(template <typename S, typename B>
                       void lane_rows_forward(const LanesForward<S, B>&, const Plan&,
                                              std::size_t begin, std::size_t end);)

namespace {

template <typename S, typename B>
Problem problem_of(const LanesForward<S, B>& args) {
  const bool sum_in_place = same_place(args.sum, args.x);
  const bool y_in_place = same_place(args.y, args.branch);
  return {.direction = Direction::kForward,
          .stream_bytes = sizeof(S),
          .rows = args.x.rows,
          .features = args.x.features,
          .bytes = bytes_of(args.x) + bytes_of(args.branch) +
                   (sum_in_place ? 0 : bytes_of(args.sum)) + (y_in_place ? 0 : bytes_of(args.y)),
          .float16 = std::is_same_v<B, Float16>,
          .in_place = sum_in_place || y_in_place,
          .aligned = streamable(args.y) && (sum_in_place || streamable(args.sum))};
}

}  // namespace

}  // namespace addnorm::kernels

namespace addnorm {

template <typename S, typename B>
void lanes_forward(const LanesForward<S, B>& args, std::size_t threads) {
  const ThreadCount count(threads);
  kernels::check_lanes_forward("lanes_forward", args);
  const kernels::Problem problem = kernels::problem_of(args);
  const kernels::Plan plan = kernels::plan_call(problem);
  const kernels::VerboseCall verbose("lanes_forward", problem, plan, args.x.lanes);
  const auto kernel = ADDNORM_KERNEL(S, lane_rows_forward<S, B>);
  parallel_ranges(args.x.rows, row_grain(args.x.lanes * args.x.features), 1,
                  [&](std::size_t begin, std::size_t end) { kernel(args, plan, begin, end); });
}

#define ADDNORM_INSTANTIATE(S, B) \
  template void lanes_forward(const LanesForward<S, B>&, std::size_t);
ADDNORM_FOR_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm
