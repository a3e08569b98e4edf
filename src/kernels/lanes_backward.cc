#include "addnorm/lanes.h"
#include "base/parallel.h"
#include "kernels/block_sums.h"
#include "kernels/dispatch.h"
#include "kernels/lanes.h"
#include "kernels/plan.h"
#include "kernels/storages.h"
#include "kernels/verbose.h"

namespace addnorm::kernels {

/// Computes rows begin … end − 1.
ADDNORM_DECLARE_KERNEL(template <typename S, typename B>
                       void lane_rows_backward(const LanesBackward<S, B>&, const Plan&,
                                               const LaneSums<Arithmetic<S>>&, std::size_t begin,
                                               std::size_t end);)

namespace {

template <typename S, typename B>
Problem problem_of(const LanesBackward<S, B>& args) {
  const bool dx_in_place = same_place(args.dx, args.d_sum);
  const bool branch_in_place = same_place(args.d_branch, args.dy);
  return {.direction = Direction::kBackward,
          .stream_bytes = sizeof(S),
          .rows = args.forward.x.rows,
          .features = args.forward.x.features,
          .bytes = bytes_of(args.forward.x) + bytes_of(args.forward.branch) + bytes_of(args.d_sum) +
                   bytes_of(args.dy) + (dx_in_place ? 0 : bytes_of(args.dx)) +
                   (branch_in_place ? 0 : bytes_of(args.d_branch)),
          .float16 = std::is_same_v<B, Float16>,
          .in_place = dx_in_place || branch_in_place,
          .aligned = streamable(args.dx) && streamable(args.d_branch)};
}

/// The parts of the workspace: one for each gradient that is summed over rows, with a place for
/// each block of rows.
template <typename S, typename B>
class LaneWorkspace {
 public:
  using V = Arithmetic<S>;

  LaneWorkspace(const LanesBackward<S, B>& args, std::size_t blocks)
      : blocks_(blocks), mode_(args.parameter_gradients) {
    const auto of_mix = [](const MatrixView<V>& gradient) {
      return gradient.rows == 1 ? gradient.row(0) : std::span<V>();
    };
    V* next = args.workspace.data();
    const std::span<V> gradients[] = {args.d_gamma, args.d_beta, of_mix(args.d_carry),
                                      of_mix(args.d_write), of_mix(args.d_read)};
    for (std::size_t i = 0; i < kParts; ++i) {
      parts_[i] = {gradients[i], next};
      next += gradients[i].size() * blocks;
    }
    needed_ = static_cast<std::size_t>(next - args.workspace.data());
    const double scale = args.forward.norm ? args.forward.norm->output_scale : 1;
    parts_[0].factor = parts_[1].factor = static_cast<V>(scale);
  }

  std::size_t needed() const { return needed_; }
  LaneSums<V> of_block(std::size_t b) const {
    const auto place = [&](std::size_t i) {
      const Part& part = parts_[i];
      return part.gradient.empty() ? nullptr : part.sums + b * part.gradient.size();
    };
    return {place(0), place(1), place(2), place(3), place(4)};
  }
  void add_up() const {
    for (const Part& part : parts_) {
      add_block_sums(part.sums, blocks_, part.factor, mode_, part.gradient);
    }
  }

 private:
  struct Part {
    std::span<V> gradient;
    V* sums = nullptr;
    V factor = 1;
  };
  static constexpr std::size_t kParts = 5;

  const std::size_t blocks_;
  const GradientMode mode_;
  Part parts_[kParts];
  std::size_t needed_ = 0;
};

}  // namespace

}  // namespace addnorm::kernels

namespace addnorm {

std::size_t lanes_workspace(std::size_t rows, std::size_t lanes, std::size_t features) {
  const std::size_t mixed = std::min(lanes, kMostLanes);
  const std::size_t mixes = mixed * mixed + mixed * kMostLanes + lanes * kMostLanes;
  return kernels::RowBlocks(rows, features).count * (2 * features + mixes);
}

template <typename S, typename B>
void lanes_backward(const LanesBackward<S, B>& args, std::size_t threads) {
  const ThreadCount count(threads);
  kernels::check_lanes_backward("lanes_backward", args);
  LanesBackward<S, B> wanted = args;
  wanted.forward.sum = {};
  const std::size_t rows = args.forward.x.rows;
  const kernels::RowBlocks blocks(rows, args.forward.x.features);
  const kernels::LaneWorkspace<S, B> workspace(args, blocks.count);
  const kernels::LaneCounts lanes(args.forward);
  const std::size_t least =
      lanes_workspace(rows, std::max(lanes.x, lanes.made), args.forward.x.features);
  require(workspace.needed() == 0 || args.workspace.size() >= least,
          "lanes_backward: workspace has {} values, must have at least {}", args.workspace.size(),
          least);
  const kernels::Problem problem = kernels::problem_of(args);
  const kernels::Plan plan = kernels::plan_call(problem);
  const kernels::VerboseCall verbose("lanes_backward", problem, plan, args.forward.x.lanes);
  const auto kernel = ADDNORM_KERNEL(S, lane_rows_backward<S, B>);
  parallel_for(blocks.count, 1, [&](std::size_t b) {
    kernel(wanted, plan, workspace.of_block(b), b * blocks.rows,
           std::min(rows, (b + 1) * blocks.rows));
  });
  workspace.add_up();
}

#define ADDNORM_INSTANTIATE(S, B) \
  template void lanes_backward(const LanesBackward<S, B>&, std::size_t);
ADDNORM_FOR_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm
