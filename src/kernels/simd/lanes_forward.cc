#include "kernels/feature_vector.h"
#include "kernels/lanes.h"
#include "kernels/plan.h"
#include "kernels/simd/lanes_loops.h"
#include "kernels/thread_memory.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

// A row of x and branch is read from memory once, block by block. X′ is stored, and z = R·X′ stays
// in a staging buffer until the row's statistics are known. If a row is wider than the buffer, z is
// computed again from X′.

template <typename S, typename B>
class LaneForwardLoops {
 public:
  using V = Arithmetic<S>;

  LaneForwardLoops(const LanesForward<S, B>& args, const Plan& plan)
      : rows_(args, thread_region<V>(3)),
        args_(rows_.args),
        cols_(args.x.features),
        wide_(cols_ > kStagedFeatures<V>),
        streams_y_(plan.stores == Stores::kNonTemporal),
        sum_stores_(same_place(args.sum, args.x) || wide_ ? Stores::kCached : plan.stores),
        options_(args.norm.value_or(NormOptions())),
        z_(thread_region<V>(0)),
        gamma_(FeatureVector<V>::gamma(options_, args.gamma)),
        beta_(FeatureVector<V>::beta(options_, args.beta)) {
    gamma_.stage(thread_region<V>(1), cols_, false);
    beta_.stage(thread_region<V>(2), cols_, false);
  }

  void run(std::size_t begin, std::size_t end) const {
    for (std::size_t r = begin; r < end; ++r) args_.norm ? normalize_row(r) : read_row(r);
  }

 private:
  HWY_INLINE std::size_t width(std::size_t begin, std::size_t most) const {
    return HWY_MIN(most, cols_ - begin);
  }
  /// Returns the memory for a block of z of a row that is normalized.
  HWY_INLINE V* z_at(std::size_t begin) const { return z_ + (wide_ ? 0 : begin); }

  void make(std::size_t r, std::size_t begin, std::size_t n, const Lanes<V>& z) const {
    rows_.make(rows_.block(r, begin, n), n, lanes_at(args_.sum, r, begin), sum_stores_, z);
  }

  /// Computes y = R·X′ without a norm.
  void read_row(std::size_t r) const {
    const Lanes<V> z{z_, kLaneTile};
    for (std::size_t begin = 0; begin < cols_; begin += kLaneTile) {
      const std::size_t n = width(begin, kLaneTile);
      make(r, begin, n, z);
      const Lanes<B> y = lanes_at(args_.y, r, begin);
      for (std::size_t k = 0; k < rows_.counts.reads; ++k) {
        for_each_pack(n, [&](std::size_t i, auto count)
                             ADDNORM_BODY { store_y(load(z[k] + i, count), y[k] + i, count); });
      }
    }
  }

  void normalize_row(std::size_t r) const {
    const FromMoments<V> from_moments(options_, cols_);
    BlockSum<V> sum, squares;
    sum.start(), squares.start();
    V shift = 0;
    for (std::size_t begin = 0; begin < cols_; begin += kBlock) {
      const std::size_t n = width(begin, kBlock);
      V* const z = z_at(begin);
      make(r, begin, n, {z, 0});
      if (begin == 0 && from_moments.centred) {
        shift = tree_sum(head<V>(n, Memory<V>{z})) / head_size<V>(n);
      }
      const Moments<V> d = moments<V>(Values<V>(z, n), V{1}, shift, V{0});
      sum.add(d.sum, begin + kBlock);
      squares.add(d.squares, begin + kBlock);
    }
    GroupStatistics<V> found;
    const unsigned unclear = from_moments(set<kRowGroup>(shift), set<kRowGroup>(sum.total(cols_)),
                                          set<kRowGroup>(squares.total(cols_)), found);
    const NormStatistics<V> statistics =
        HWY_LIKELY(unclear == 0) ? found.get(0) : careful_statistics(options_, MadeAgain(*this, r));
    if (!args_.statistics.empty()) args_.statistics[r] = statistics;
    for (std::size_t begin = 0; begin < cols_; begin += kBlock) {
      if (wide_) make_again(r, begin);
      write_block(statistics, begin, lanes_at(args_.y, r, begin).data);
    }
  }

  HWY_NOINLINE void write_block(const NormStatistics<V>& statistics, std::size_t begin,
                                B* y) const {
    const std::size_t n = width(begin, kBlock);
    const V* const z = z_at(begin);
    const V* const gamma = gamma_.at(begin, n);
    const V* const beta = beta_.at(begin, n);
    const Normalize<V> normalize(statistics);
    for_each_pack(n, [&](std::size_t i, auto count) ADDNORM_BODY {
      const Pack<V> x_hat = normalize(load(z + i, count));
      store_y(x_hat * load(gamma + i, count) + load(beta + i, count), y + i, count);
    });
  }
  template <typename Count>
  HWY_INLINE void store_y(const Pack<V>& value, B* y, Count count) const {
    streams_y_ ? store<Stores::kNonTemporal>(value, y, count) : store(value, y, count);
  }

  /// Computes a block of z again from the stored X′.
  void make_again(std::size_t r, std::size_t begin) const {
    const std::size_t n = width(begin, kBlock);
    const LanesView<const S> made = rows_.counts.mixes ? LanesView<const S>(args_.sum) : args_.x;
    const V* const read = mix_of_row(args_.read, r);
    read_lanes(lanes_at(made, r, begin), rows_.counts.made, read, n, z_at(begin));
  }
  /// Computes z of a row again, in blocks.
  struct MadeAgain final : Blocks<V> {
    const LaneForwardLoops& loops;
    const std::size_t row;

    MadeAgain(const LaneForwardLoops& l, std::size_t r) : Blocks<V>(l.cols_), loops(l), row(r) {}
    const V* block(std::size_t begin) const override {
      if (loops.wide_) loops.make_again(row, begin);
      return loops.z_at(begin);
    }
  };

  const LaneRows<S, B> rows_;
  const LanesForward<S, B>& args_;
  const std::size_t cols_;
  const bool wide_;  ///< whether a row of z is wider than the staging buffer
  const bool streams_y_;
  const Stores sum_stores_;
  const NormOptions options_;
  V* const z_;
  FeatureVector<V> gamma_, beta_;
};

template <typename S, typename B>
void lane_rows_forward(const LanesForward<S, B>& args, const Plan& plan, std::size_t begin,
                       std::size_t end) {
  LaneForwardLoops<S, B>(args, plan).run(begin, end);
  if (plan.stores == Stores::kNonTemporal) hwy::FlushStream();
}

#define ADDNORM_INSTANTIATE(S, B)                                                            \
  template void lane_rows_forward(const LanesForward<S, B>&, const Plan&, std::size_t begin, \
                                  std::size_t end);
ADDNORM_FOR_PAIRS(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
