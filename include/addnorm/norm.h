#pragma once

/// \file
/// Normalization and Add & Norm, forward and backward. Every function allocates nothing after a
/// thread's first call, checks its arguments (addnorm::Error) and gives the same bits on every
/// instruction set and for any number of threads. Numerics: docs/numerics.md; speed:
/// docs/kernels.md.
///
/// Rows are divided among `threads` threads where that pays: 0 means as many as OpenMP has
/// (OMP_NUM_THREADS, omp_set_num_threads), 1 that all is done on the caller's thread, for engines
/// with a pool of their own; a forked process has one. All calls of a process share a pool, whose
/// threads sleep soon after a call (docs/engine.md). Calls from several threads at once are safe.
/// All threads must handle subnormal numbers alike: one with FTZ or DAZ gives other bits.
///
/// What is written may overlap other memory of the call only where a member's comment says so, and
/// then must be the same matrix: type, first element and stride. Every other overlap is an error,
/// but columns of one matrix beside each other do not overlap.
///
/// A sublayer F of a pre-norm stack, h = norm(x), s = x + F(h), forward and back:
///
///     add_norm_forward<float>(o, {.add = {.x = x}, .y = h, .statistics = st});  // F: f from h
///     residual_add({.x = x, .branch = f}, s);  // or in the next sublayer's add_norm_forward
///     // F back: dh from ds
///     add_norm_backward<float>(
///         o, {.s = x, .statistics = st, .dy = dh, .d_residual = ds, .dx = dx});
///
/// Of a post-norm stack, s = x + F(x), y = norm(s):
///
///     // F: f from x
///     add_norm_forward<float>(o, {.add = {x, f}, .sum = s, .y = y, .statistics = st});
///     add_norm_backward<float>(o, {.s = s, .statistics = st, .dy = dy, .dx = ds});
///     // F back: dx from ds
///     residual_add({.x = ds, .branch = dx}, dx);
///
/// With dropout or a gain, F's gradient is residual_add_backward's d_branch, and not ds.
///
/// A matrix of the residual stream has type Stream, a branch and an output of a norm type Branch:
/// float and float, double and double, BFloat16 and BFloat16, Float16 and Float16, float and
/// BFloat16, float and Float16. What is computed, and γ, β, factors and statistics, have type
/// Arithmetic<Stream>: float, or double.
///
/// Batch, instance and group norms take an (N, C, S) tensor in PyTorch's order, without gaps, as a
/// matrix of N rows with C·S features and `positions` = S; in float or double.

#include <cstddef>
#include <cstdint>
#include <span>

#include "addnorm/api.h"
#include "addnorm/error.h"
#include "addnorm/float16.h"
#include "addnorm/names.h"
#include "addnorm/types.h"
#include "addnorm/view.h"

namespace addnorm {

/// Which values share one mean and one deviation, and whether the mean is taken away. The last two
/// have neither: they squash each value.
enum class NormKind {
  kLayer,     ///< the features of one row (Ba et al. 2016)
  kRms,       ///< the same, without taking the mean away (Zhang and Sennrich 2019)
  kBatch,     ///< one channel over all samples and positions (Ioffe and Szegedy 2015)
  kInstance,  ///< one channel of one sample over its positions (Ulyanov et al. 2016)
  kGroup,     ///< a group of channels of one sample (Wu and He 2018)
  kDyT,       ///< tanh(α·x) of each value (Zhu et al. 2025, arXiv 2503.10622)
  kDerf,      ///< erf(α·x + shift) of each value (Chen et al. 2025, arXiv 2512.10938)
};

constexpr std::array<std::string_view, 7> names_of(NormKind) {
  return {"layer", "rms", "batch", "instance", "group", "dyt", "derf"};
}
/// The name that papers use: "LayerNorm".
constexpr std::string_view title_of(NormKind kind) {
  constexpr std::array<std::string_view, names_of(NormKind{}).size()> kTitles{
      "LayerNorm", "RMSNorm", "BatchNorm", "InstanceNorm", "GroupNorm", "DyT", "Derf"};
  return kTitles[static_cast<std::size_t>(kind)];
}
static_assert(!title_of(NormKind::kDerf).empty());

/// How many kinds, the first, give each row statistics of its own over all its values.
inline constexpr std::size_t kRowNorms = 2;
/// Whether the kind is one of those: kLayer or kRms.
constexpr bool normalizes_rows(NormKind kind) {
  return static_cast<std::size_t>(kind) < kRowNorms;
}
static_assert(normalizes_rows(NormKind::kRms) && !normalizes_rows(NormKind::kBatch));

/// How many kinds, the first, have a mean or a deviation at all.
inline constexpr std::size_t kNormsWithStatistics = 5;
/// Whether the kind squashes each value by itself: kDyT or kDerf.
constexpr bool squashes(NormKind kind) {
  return static_cast<std::size_t>(kind) >= kNormsWithStatistics;
}
static_assert(squashes(NormKind::kDyT) && !squashes(NormKind::kGroup));

/// Where ε enters the deviation.
enum class EpsilonAt {
  kVariance,   ///< deviation = √(variance + ε)
  kDeviation,  ///< deviation = √variance + ε
};
constexpr std::array<std::string_view, 2> names_of(EpsilonAt) {
  return {"variance", "deviation"};
}

/// What the sum of squares is divided by; n values share it.
enum class Variance {
  kPopulation,  ///< divide by n
  kUnbiased,    ///< divide by n − 1
};
constexpr std::array<std::string_view, 2> names_of(Variance) {
  return {"population", "unbiased"};
}

/// What γ means.
enum class GammaForm {
  kPlain,    ///< y = γ·x̂ + β
  kOnePlus,  ///< y = (1 + γ)·x̂ + β, as Gemma stores it
};
constexpr std::array<std::string_view, 2> names_of(GammaForm) {
  return {"plain", "one_plus"};
}

/// A norm as data. y = output_scale·(γ ⊙ (x − mean)/deviation + β), where kRms has mean 0. Instead
/// of a quotient kDyT has tanh(α·x), and kDerf erf(α·x + shift), which read no option above
/// gamma_form.
struct NormOptions {
  NormKind kind = NormKind::kLayer;
  double epsilon = 1e-5;  ///< from 0 to 1e30; where it is 0, a set of equal values gives NaN
  EpsilonAt epsilon_at = EpsilonAt::kVariance;
  Variance variance = Variance::kPopulation;
  GammaForm gamma_form = GammaForm::kPlain;
  std::size_t groups = 1;     ///< of kGroup: must divide the channels
  double output_scale = 1.0;  ///< 1/√l in depth-scaled stacks (Sun et al. 2025)
  double alpha = 0.5;         ///< of kDyT and kDerf: α, where none is given; begins training
};

/// What forward leaves for backward, one for each set of values that is normalized together:
/// x̂ = ((x·scale − mean_hi) − mean_lo)·reciprocal. `scale` is a power of two, 1 unless the squares
/// of the values could overflow, or vanish where ε is 0.
template <typename T>
struct NormStatistics {
  static_assert(check_value<T>());

  T mean_hi = 0;
  T mean_lo = 0;
  T reciprocal = 0;  ///< 1/deviation of the scaled values
  T scale = 1;
  T variance = 0;       ///< of the scaled values, without ε; kRms: their mean square
  T epsilon_ratio = 1;  ///< deviation ÷ √variance where ε is added to the deviation, else 1

  /// From what other libraries keep, the mean (of kRms 0) and 1/deviation; ε is in the variance.
  static constexpr NormStatistics from(T mean, T reciprocal) {
    return {.mean_hi = mean, .reciprocal = reciprocal};
  }

  T mean() const { return (mean_hi + mean_lo) / scale; }  ///< of the values themselves
  T deviation() const { return 1 / reciprocal / scale; }  ///< likewise, ε included
};

/// A factor of the residual sum: one number, or one for each feature.
template <typename T>
struct Scale {
  T constant = 1;
  std::span<const T> vector = {};  ///< empty: the constant; else one value for each feature

  /// The factor of feature i.
  constexpr T operator[](std::size_t i) const { return vector.empty() ? constant : vector[i]; }
  constexpr bool is_one() const { return vector.empty() && constant == T{1}; }  ///< changes nothing
};

/// Inverted dropout: each value becomes 0 with `probability`, else itself ÷ (1 − probability).
/// Which ones is a pure function of (seed, offset + row·cols + col), so no mask is stored and
/// backward sees the same one (Philox4x32-10, Salmon et al. 2011).
struct Dropout {
  double probability = 0;
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;

  constexpr bool active() const { return probability > 0; }  ///< whether it does anything
};

/// The branch's way into the residual sum: s = skip ⊙ x + gain ⊙ dropout(branch).
template <typename Stream, typename Branch = Stream>
struct ResidualAdd {
  static_assert(check_storage<Stream, Branch>());

  MatrixView<const Stream> x = {};       ///< rows × features, the residual stream
  MatrixView<const Branch> branch = {};  ///< the same shape; absent: s = skip ⊙ x
  Scale<Arithmetic<Stream>> skip = {};
  Scale<Arithmetic<Stream>> gain = {};
  Dropout dropout = {};
};

/// s = skip ⊙ x + gain ⊙ dropout(branch). `sum` may be x or branch itself.
template <typename Stream, typename Branch = Stream>
ADDNORM_API void residual_add(const ResidualAdd<Stream, Branch>& add, MatrixView<Stream> sum,
                              std::size_t threads = 0);

/// The gradients of residual_add's branch and factors, from `d_sum`, the gradient of s. That of x
/// by this way is skip ⊙ d_sum: AddNormBackward::d_residual, or residual_add({.x = d_sum, .skip}).
template <typename Stream, typename Branch = Stream>
struct ResidualAddBackward {
  static_assert(check_storage<Stream, Branch>());
  using Value = Arithmetic<Stream>;

  ResidualAdd<Stream, Branch> add = {};  ///< as in forward; its branch is read for d_gain alone
  MatrixView<const Stream> d_sum = {};
  MatrixView<Branch> d_branch = {};  ///< gain ⊙ mask ⊙ d_sum; may be d_sum; absent: not wanted
  std::span<Value> d_skip = {};  ///< += Σ over rows of x ⊙ d_sum, 1 value or one for each feature
  std::span<Value> d_gain = {};  ///< += Σ over rows of dropout(branch) ⊙ d_sum, likewise
};
/// Computes the gradients that ResidualAddBackward asks for.
template <typename Stream, typename Branch = Stream>
ADDNORM_API void residual_add_backward(const ResidualAddBackward<Stream, Branch>& args,
                                       std::size_t threads = 0);

/// Where mean and deviation come from.
enum class StatisticsFrom {
  kInput,  ///< the values that are normalized
  kGiven,  ///< of kBatch: `statistics`, which do not depend on the values: evaluation
};

/// A norm of any kind, with the residual sum that comes before it: s = skip ⊙ x + gain ⊙
/// dropout(branch), y = norm(s). LayerNorm and RMSNorm do both in one pass over memory.
template <typename Stream, typename Branch = Stream>
struct AddNormForward {
  static_assert(check_storage<Stream, Branch>());
  using Value = Arithmetic<Stream>;

  ResidualAdd<Stream, Branch> add = {};  ///< without a branch this is the norm alone
  /// Where s goes; may be x or branch; absent: not kept. LayerNorm and RMSNorm alone allow that
  /// with a branch, or a skip other than 1.
  MatrixView<Stream> sum = {};
  std::span<const Value> gamma = {};  ///< one for each feature or channel; empty: 1
  std::span<const Value> beta = {};   ///< one for each feature or channel; empty: 0
  std::span<const Value> alpha = {};  ///< of kDyT and kDerf: 1 value; empty: options.alpha
  std::span<const Value> shift = {};  ///< likewise; empty: 0
  MatrixView<Branch> y = {};          ///< may be x or branch, but not sum
  /// norm_sets() elements, for backward; optional for LayerNorm and RMSNorm.
  std::span<NormStatistics<Value>> statistics = {};
  std::size_t positions = 1;        ///< of norms over channels: the values of each channel in a row
  std::span<Value> workspace = {};  ///< of kBatch: norm_workspace() values
  StatisticsFrom statistics_from = StatisticsFrom::kInput;
};
/// Computes y, and what else AddNormForward asks for.
template <typename Stream, typename Branch = Stream>
ADDNORM_API void add_norm_forward(const NormOptions& options,
                                  const AddNormForward<Stream, Branch>& args,
                                  std::size_t threads = 0);

/// What becomes of the values that stand where a parameter's gradient goes.
enum class GradientMode {
  kAccumulate,  ///< the gradient is added to them
  kOverwrite,   ///< they are replaced
};

/// dx = skip ⊙ d_residual + dnorm(dy): a norm's backward and the residual gradient in one pass. dx
/// is the gradient of s, which the norm read; d_residual that of the next sum, to which s
/// goes directly, past the norm and its sublayer, multiplied with that sum's `skip`.
///
///     dnorm = (g − mean(g) − x̂·mean(g·x̂))/deviation with g = γ·dy  (Xu et al. 2019, eq. 3–5)
///
/// Means are over each set of values that is normalized together. RMSNorm takes no mean away from
/// g; where statistics are given, nothing is. γ's gradient is Σ dy·x̂, β's is Σ dy, over rows.
///
/// Of kDyT and kDerf, with φ = tanh or erf and u = α·s + shift: dnorm = α·g·φ′(u), x̂ = φ(u), and
/// over all values α's gradient is Σ g·φ′(u)·s, that of the shift Σ g·φ′(u).
template <typename Stream, typename Branch = Stream>
struct AddNormBackward {
  static_assert(check_storage<Stream, Branch>());
  using Value = Arithmetic<Stream>;

  MatrixView<const Stream> s = {};                         ///< what forward normalized
  std::span<const NormStatistics<Value>> statistics = {};  ///< from forward
  std::span<const Value> gamma = {};
  std::span<const Value> alpha = {};  ///< as in forward
  std::span<const Value> shift = {};  ///< as in forward
  MatrixView<const Branch> dy = {};
  MatrixView<const Stream> d_residual = {};  ///< absent: none
  Scale<Value> skip = {};
  MatrixView<Stream> dx = {};     ///< may be s, dy or d_residual
  std::span<Value> d_gamma = {};  ///< empty: not wanted
  std::span<Value> d_beta = {};   ///< empty: not wanted
  std::span<Value> d_alpha = {};  ///< 1 value; empty: not wanted
  std::span<Value> d_shift = {};  ///< 1 value; empty: not wanted
  /// norm_workspace() values, which hold nothing between calls. LayerNorm and RMSNorm need it for
  /// d_gamma and d_beta alone.
  std::span<Value> workspace = {};
  GradientMode parameter_gradients = GradientMode::kAccumulate;
  std::size_t positions = 1;                                ///< as in forward
  StatisticsFrom statistics_from = StatisticsFrom::kInput;  ///< as in forward
};
/// Computes dx, and what else AddNormBackward asks for. `options` are those of forward.
template <typename Stream, typename Branch = Stream>
ADDNORM_API void add_norm_backward(const NormOptions& options,
                                   const AddNormBackward<Stream, Branch>& args,
                                   std::size_t threads = 0);

/// How many sets of values have statistics of their own: the rows; of kBatch the channels, of
/// kInstance rows·channels, of kGroup rows·groups, of kDyT and kDerf none.
ADDNORM_API std::size_t norm_sets(const NormOptions& options, std::size_t rows,
                                  std::size_t features, std::size_t positions = 1);
/// How many values the workspace of forward and backward must hold at least.
ADDNORM_API std::size_t norm_workspace(const NormOptions& options, std::size_t rows,
                                       std::size_t features, std::size_t positions = 1);
/// The same of LayerNorm and RMSNorm.
ADDNORM_API std::size_t add_norm_workspace(std::size_t rows, std::size_t features);

/// BatchNorm's memory of the batches it has seen, one value for each channel.
template <typename T>
struct RunningStatistics {
  static_assert(check_value<T>());

  std::span<T> mean = {};      ///< 0 at first
  std::span<T> variance = {};  ///< 1 at first
  T momentum = T(0.1);
};
/// running = (1 − momentum)·running + momentum·(of this batch); the variance is the unbiased one
/// whatever options.variance says, as in PyTorch. `count` is the values of a channel: N·S ≥ 2.
template <typename T>
ADDNORM_API void update_running_statistics(const NormOptions& options, std::size_t count,
                                           std::span<const NormStatistics<T>> batch,
                                           const RunningStatistics<T>& running);
/// The statistics to be given to a BatchNorm that is to normalize each channel by the running ones.
template <typename T>
ADDNORM_API void running_to_norm_statistics(const NormOptions& options,
                                            const RunningStatistics<T>& running,
                                            std::span<NormStatistics<T>> statistics);

}  // namespace addnorm
