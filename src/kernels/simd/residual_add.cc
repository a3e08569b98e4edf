#include "kernels/residual_add.h"

#include "kernels/simd/residual.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

template <bool kOptions, typename S, typename B>
HWY_NOINLINE void add_block(const ResidualRows<S, B>& rows, std::size_t r, std::size_t column,
                            std::size_t n, S* sum) {
  const auto block = rows.template block<kOptions>(r, column, n);
  for_each_pack(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    store(block.template exact<kPack>(i, count), sum + i, count);
  });
}

template <typename S, typename B>
void add_rows(const ResidualAdd<S, B>& add, const MatrixView<S>& sum, std::size_t begin,
              std::size_t end) {
  const bool options = !is_plain(add);
  const ResidualRows<S, B> rows(add, options, 0);
  for (std::size_t r = begin; r < end; ++r) {
    for (std::size_t column = 0; column < add.x.cols; column += kBlock) {
      const std::size_t n = HWY_MIN(kBlock, add.x.cols - column);
      S* const to = sum.row(r).data() + column;
      options ? add_block<true>(rows, r, column, n, to) : add_block<false>(rows, r, column, n, to);
    }
  }
}

template <typename S, typename B>
void branch_rows(const ResidualAddBackward<S, B>& args, std::size_t begin, std::size_t end) {
  using V = Arithmetic<S>;
  const std::size_t cols = args.d_sum.cols;
  const Dropout& dropout = args.add.dropout;
  const MatrixView<const V>& by_sample = args.add.sample_gain;
  const std::size_t of_sample = rows_of_sample(by_sample, args.d_sum.rows);
  FeatureVector<V> gains = FeatureVector<V>::scale(args.add.gain);
  gains.stage(thread_region<V>(0), cols, false);
  V* const factors = thread_region<V>(1);
  for (std::size_t r = begin; r < end; ++r) {
    for (std::size_t column = 0; column < cols; column += kBlock) {
      const std::size_t n = HWY_MIN(kBlock, cols - column);
      const S* const d_sum = args.d_sum.row(r).data() + column;
      B* const d_branch = args.d_branch.row(r).data() + column;
      const V* const gain =
          by_sample.empty() ? gains.at(column, n) : by_sample.row(r / of_sample).data() + column;
      if (dropout.active()) dropout_factors(dropout, r * cols + column, n, factors);
      for_each_pack(n, [&](std::size_t i, auto count) ADDNORM_BODY {
        Pack<V> d = load(d_sum + i, count);
        if (dropout.active()) d = load(factors + i, Full()) * d;
        store(load(gain + i, count) * d, d_branch + i, count);
      });
    }
  }
}

#define ADDNORM_INSTANTIATE(S, B)                                                               \
  template void add_rows(const ResidualAdd<S, B>&, const MatrixView<S>& sum, std::size_t begin, \
                         std::size_t end);                                                      \
  template void branch_rows(const ResidualAddBackward<S, B>&, std::size_t begin, std::size_t end);
ADDNORM_FOR_PAIRS(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
