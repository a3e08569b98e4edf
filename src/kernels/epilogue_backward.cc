#include "kernels/epilogue_backward.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/block_sums.h"
#include "kernels/epilogue.h"
#include "kernels/rows_backward.h"
#include "kernels/storages.h"
#include "kernels/thread_memory.h"

namespace addnorm::kernels {
namespace {

/// The parts of the workspace: sums over the rows of blocks, and over those of blocks and samples.
/// Block b and sample i share sums at b + i: both only grow from row to row, so no other block and
/// sample with common rows have the same place.
template <typename V>
struct Sums {
  V* gamma = nullptr;  ///< null: not wanted
  V* beta = nullptr;
  V* scale = nullptr;
  V* shift = nullptr;

  template <typename S, typename B>
  Sums(const AddNormBackward<S, B>& args, std::size_t blocks) {
    const std::size_t cols = args.s.cols;
    const std::size_t samples = args.epilogue.modulation.samples();
    V* at = args.workspace.data();
    const auto take = [&](const auto& gradient, std::size_t count) {
      V* const place = at;
      if (!gradient.empty()) at += count * cols;
      return gradient.empty() ? nullptr : place;
    };
    gamma = take(args.d_gamma, blocks);
    beta = take(args.d_beta, blocks);
    scale = take(args.epilogue.d_scale, blocks + samples);
    shift = take(args.epilogue.d_shift, blocks + samples);
  }
};

template <typename V>
V* advance(V* sums, std::size_t count) {
  return sums == nullptr ? nullptr : sums + count;
}

/// The plan for rows in the thread's memory.
template <typename V>
Plan plan_of_chunk(std::size_t rows, std::size_t cols) {
  return plan_call({.direction = Direction::kBackward,
                    .stream_bytes = sizeof(V),
                    .rows = rows,
                    .features = cols,
                    .bytes = 2 * rows * cols * sizeof(V),
                    .adds = false,
                    .in_place = true,
                    .aligned = false});
}

/// Adds the sums of blocks to the gradient of each sample.
template <typename V>
void add_samples(const V* sums, const RowBlocks& blocks, std::size_t rows_of_sample,
                 GradientMode mode, const MatrixView<V>& gradient) {
  for (std::size_t i = 0; i < gradient.rows; ++i) {
    const std::size_t first = i * rows_of_sample / blocks.rows;
    const std::size_t end = ((i + 1) * rows_of_sample + blocks.rows - 1) / blocks.rows;
    add_block_sums(sums + (first + i) * gradient.cols, end - first, V{1}, mode, gradient.row(i));
  }
}

}  // namespace

template <typename S, typename B>
void epilogue_backward(std::string_view where, const NormOptions& options,
                       const AddNormBackward<S, B>& args) {
  using V = Arithmetic<S>;
  const std::size_t rows = args.s.rows;
  const std::size_t cols = args.s.cols;
  require(cols <= kStagedFeatures<V>,
          "{}: there are {} features, must be at most {} with an epilogue", where, cols,
          kStagedFeatures<V>);
  const RowBlocks blocks(rows, cols);
  const Sums<V> sums(args, blocks.count);
  const std::size_t most =
      std::max<std::size_t>(1, kStagedFeatures<V> / std::max<std::size_t>(1, cols));
  const Plan plan = plan_of_chunk<V>(most, cols);
  const auto before = ADDNORM_KERNEL(S, before_norm_backward<S, B>);
  const auto norm = ADDNORM_KERNEL(S, rows_backward<V, V>);
  const auto after = ADDNORM_KERNEL(S, after_norm_backward<S, B>);
  parallel_for(blocks.count, 1, [&](std::size_t b) {
    const std::size_t block_begin = b * blocks.rows;
    const std::size_t block_end = std::min(rows, block_begin + blocks.rows);
    for (std::size_t begin = block_begin; begin < block_end; begin += most) {
      const std::size_t end = std::min(begin + most, block_end);
      const EpilogueChunk<S, B> chunk{.options = options,
                                      .args = args,
                                      .begin = begin,
                                      .end = end,
                                      .s = thread_region<V>(5),
                                      .gradient = thread_region<V>(6),
                                      .d_scale = advance(sums.scale, b * cols),
                                      .d_shift = advance(sums.shift, b * cols),
                                      .block_begin = block_begin};
      before(chunk);
      const MatrixView<V> gradient(chunk.gradient, end - begin, cols);
      norm(options,
           {.s = {chunk.s, end - begin, cols},
            .statistics = args.statistics.subspan(begin, end - begin),
            .gamma = args.gamma,
            .dy = gradient,
            .dx = gradient},
           plan, 0, end - begin,
           begin == block_begin ? GradientMode::kOverwrite : GradientMode::kAccumulate,
           advance(sums.gamma, b * cols), advance(sums.beta, b * cols));
      after(chunk);
    }
  });
  const V factor = static_cast<V>(options.output_scale);
  const GradientMode mode = args.parameter_gradients;
  add_block_sums(sums.gamma, blocks.count, factor, mode, args.d_gamma);
  add_block_sums(sums.beta, blocks.count, factor, mode, args.d_beta);
  const std::size_t of_sample = rows_of_sample(args.epilogue.modulation, rows);
  add_samples(sums.scale, blocks, of_sample, mode, args.epilogue.d_scale);
  add_samples(sums.shift, blocks, of_sample, mode, args.epilogue.d_shift);
}

#define ADDNORM_INSTANTIATE(S, B)                                       \
  template void epilogue_backward(std::string_view, const NormOptions&, \
                                  const AddNormBackward<S, B>&);
ADDNORM_FOR_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm::kernels
