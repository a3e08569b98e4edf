#pragma once

/// \file
/// Normalization and Add & Norm, forward and backward. After a thread's first call no function
/// allocates. Every function checks its arguments (addnorm::Error) and computes the same bits on
/// every instruction set and with any number of threads. Numerics: docs/numerics.md; speed:
/// docs/kernels.md.
///
/// Rows are divided among `threads` threads where that is faster, at most 1024. 0 means the number
/// of OpenMP threads (OMP_NUM_THREADS, omp_set_num_threads). 1 runs everything on the caller's
/// thread, for engines with their own thread pool. A forked process has one thread. All calls of a
/// process share a pool, whose threads sleep soon after a call (docs/engine.md). Calls from several
/// threads at once are safe. All threads must handle subnormal numbers alike: a thread with FTZ or
/// DAZ computes other bits.
///
/// An output may overlap other memory of the call only where its member's comment allows it, and
/// then must be the same matrix: type, first element and stride. Every other overlap is an error.
/// Columns of one matrix side by side do not overlap.
///
/// A sublayer F of a pre-norm stack, h = norm(x), s = x + F(h), forward and backward:
///
///     add_norm_forward<float>(o, {.add = {.x = x}, .y = h, .statistics = st});  // F: f from h
///     residual_add({.x = x, .branch = f}, s);  // or in the next sublayer's add_norm_forward
///     // F back: dh from ds
///     add_norm_backward<float>(
///         o, {.s = x, .statistics = st, .dy = dh, .d_residual = ds, .dx = dx});
///
/// A sublayer of a post-norm stack, s = x + F(x), y = norm(s):
///
///     // F: f from x
///     add_norm_forward<float>(o, {.add = {x, f}, .sum = s, .y = y, .statistics = st});
///     add_norm_backward<float>(o, {.s = s, .statistics = st, .dy = dy, .dx = ds});
///     // F back: dx from ds
///     residual_add({.x = ds, .branch = dx}, dx);
///
/// With dropout or a gain, F's gradient is residual_add_backward's d_branch, and not ds.
///
/// Matrices of the residual stream have type Stream; branches and outputs of norms have type
/// Branch. The pairs are float and float, double and double, BFloat16 and BFloat16, Float16 and
/// Float16, float and BFloat16, float and Float16. Arithmetic, γ, β, factors and statistics have
/// type Arithmetic<Stream>: float or double.
///
/// Batch, instance and group norms take an (N, C, S) tensor in PyTorch's order, without gaps, as a
/// matrix of N rows with C·S features and `positions` = S. They support float and double.

#include <cstddef>
#include <cstdint>
#include <span>

#include "addnorm/api.h"
#include "addnorm/epilogue.h"
#include "addnorm/error.h"
#include "addnorm/float16.h"
#include "addnorm/names.h"
#include "addnorm/types.h"
#include "addnorm/view.h"

namespace addnorm {

/// The kind of a norm: which values share one mean and one deviation, and whether the mean is
/// subtracted. The last two have neither: they squash each value.
enum class NormKind {
  kLayer,     ///< the features of one row (Ba et al. 2016)
  kRms,       ///< the features of one row; the mean is not subtracted (Zhang and Sennrich 2019)
  kBatch,     ///< one channel over all samples and positions (Ioffe and Szegedy 2015)
  kInstance,  ///< one channel of one sample over its positions (Ulyanov et al. 2016)
  kGroup,     ///< a group of channels of one sample (Wu and He 2018)
  kDyT,       ///< tanh(α·x) of each value (Zhu et al. 2025, arXiv 2503.10622)
  kDerf,      ///< erf(α·x + shift) of each value (Chen et al. 2025, arXiv 2512.10938)
};

constexpr std::array<std::string_view, 7> names_of(NormKind) {
  return {"layer", "rms", "batch", "instance", "group", "dyt", "derf"};
}
/// Returns the name that papers use: "LayerNorm".
constexpr std::string_view title_of(NormKind kind) {
  constexpr std::array<std::string_view, names_of(NormKind{}).size()> kTitles{
      "LayerNorm", "RMSNorm", "BatchNorm", "InstanceNorm", "GroupNorm", "DyT", "Derf"};
  return kTitles[static_cast<std::size_t>(kind)];
}
static_assert(!title_of(NormKind::kDerf).empty());

/// The number of kinds with statistics for each row. They come first in the enum.
inline constexpr std::size_t kRowNorms = 2;
/// Returns whether the kind has statistics for each row: kLayer or kRms.
constexpr bool normalizes_rows(NormKind kind) {
  return static_cast<std::size_t>(kind) < kRowNorms;
}
static_assert(normalizes_rows(NormKind::kRms) && !normalizes_rows(NormKind::kBatch));

/// The number of kinds that have a mean or a deviation. They come first in the enum.
inline constexpr std::size_t kNormsWithStatistics = 5;
/// Returns whether the kind squashes each value by itself: kDyT or kDerf.
constexpr bool squashes(NormKind kind) {
  return static_cast<std::size_t>(kind) >= kNormsWithStatistics;
}
static_assert(squashes(NormKind::kDyT) && !squashes(NormKind::kGroup));

/// The place of ε in the deviation.
enum class EpsilonAt {
  kVariance,   ///< deviation = √(variance + ε)
  kDeviation,  ///< deviation = √variance + ε
};
constexpr std::array<std::string_view, 2> names_of(EpsilonAt) {
  return {"variance", "deviation"};
}

/// The divisor of the sum of squares of n values that share a variance.
enum class Variance {
  kPopulation,  ///< divide by n
  kUnbiased,    ///< divide by n − 1
};
constexpr std::array<std::string_view, 2> names_of(Variance) {
  return {"population", "unbiased"};
}

/// The meaning of γ.
enum class GammaForm {
  kPlain,    ///< y = γ·x̂ + β
  kOnePlus,  ///< y = (1 + γ)·x̂ + β, as Gemma stores it
};
constexpr std::array<std::string_view, 2> names_of(GammaForm) {
  return {"plain", "one_plus"};
}

/// A norm as data: y = output_scale·(γ ⊙ (x − mean)/deviation + β), where kRms has mean 0. kDyT
/// replaces the quotient by tanh(α·x), and kDerf by erf(α·x + shift); they ignore the options
/// before gamma_form.
struct NormOptions {
  NormKind kind = NormKind::kLayer;
  double epsilon = 1e-5;  ///< from 0 to 1e30; with 0, a set of equal values gives NaN
  EpsilonAt epsilon_at = EpsilonAt::kVariance;
  Variance variance = Variance::kPopulation;
  GammaForm gamma_form = GammaForm::kPlain;
  std::size_t groups = 1;     ///< for kGroup; must divide the channels
  double output_scale = 1.0;  ///< 1/√l in depth-scaled stacks (Sun et al. 2025)
  double alpha = 0.5;  ///< for kDyT and kDerf: α unless it is passed; its initial value in training
};

/// Statistics that forward writes for backward, one for each set of values that is normalized
/// together: x̂ = ((x·scale − mean_hi) − mean_lo)·reciprocal. `scale` is a power of two. It is 1
/// unless the squares of the values could overflow, or vanish where ε is 0.
template <typename T>
struct NormStatistics {
  static_assert(check_value<T>());

  T mean_hi = 0;
  T mean_lo = 0;
  T reciprocal = 0;  ///< 1/deviation of the scaled values
  T scale = 1;
  T variance = 0;       ///< of the scaled values, without ε; for kRms their mean square
  T epsilon_ratio = 1;  ///< deviation ÷ √variance if ε is added to the deviation, else 1

  /// Returns statistics made from those of other libraries: the mean (0 for kRms) and 1/deviation,
  /// with ε in the variance.
  static constexpr NormStatistics from(T mean, T reciprocal) {
    return {.mean_hi = mean, .reciprocal = reciprocal};
  }

  T mean() const { return (mean_hi + mean_lo) / scale; }  ///< of the unscaled values
  T deviation() const { return 1 / reciprocal / scale; }  ///< of the unscaled values, with ε
};

/// A factor of the residual sum: one number, or one for each feature.
template <typename T>
struct Scale {
  T constant = 1;
  std::span<const T> vector = {};  ///< empty: the constant; else one value for each feature

  /// The factor of feature i.
  constexpr T operator[](std::size_t i) const { return vector.empty() ? constant : vector[i]; }
  constexpr bool is_one() const { return vector.empty() && constant == T{1}; }  ///< no change
};

/// Inverted dropout: each value becomes 0 with `probability`, else it is divided by 1 −
/// probability. The choice is a pure function of (seed, offset + row·cols + col) (Philox4x32-10,
/// Salmon et al. 2011). So no mask is stored, and backward makes the same choice.
struct Dropout {
  double probability = 0;
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;

  constexpr bool active() const { return probability > 0; }  ///< whether it changes any value
};

/// The residual sum: s = skip ⊙ x + gain ⊙ dropout(branch).
template <typename Stream, typename Branch = Stream>
struct ResidualAdd {
  static_assert(check_storage<Stream, Branch>());
  using Value = Arithmetic<Stream>;

  MatrixView<const Stream> x = {};       ///< rows × features, the residual stream
  MatrixView<const Branch> branch = {};  ///< the same shape; absent: s = skip ⊙ x
  Scale<Value> skip = {};
  Scale<Value> gain = {};
  Dropout dropout = {};
  /// A gain for each sample in place of `gain`, which must then be 1: samples × features. A sample
  /// is rows ÷ samples consecutive rows (adaLN-Zero, Peebles and Xie 2022). Absent: `gain`.
  MatrixView<const Value> sample_gain = {};
};

/// s = skip ⊙ x + gain ⊙ dropout(branch). `sum` may be x or branch itself.
template <typename Stream, typename Branch = Stream>
ADDNORM_API void residual_add(const ResidualAdd<Stream, Branch>& add, MatrixView<Stream> sum,
                              std::size_t threads = 0);

/// The gradients of residual_add's branch and factors, from `d_sum`, the gradient of s. The
/// gradient of x through this sum is skip ⊙ d_sum. It is AddNormBackward::d_residual, or
/// residual_add({.x = d_sum, .skip}).
template <typename Stream, typename Branch = Stream>
struct ResidualAddBackward {
  static_assert(check_storage<Stream, Branch>());
  using Value = Arithmetic<Stream>;

  /// Forward's sum; its branch is read only for d_gain and d_sample_gain.
  ResidualAdd<Stream, Branch> add = {};
  MatrixView<const Stream> d_sum = {};
  MatrixView<Branch> d_branch = {};  ///< gain ⊙ mask ⊙ d_sum; may be d_sum; absent: not wanted
  std::span<Value> d_skip = {};  ///< += Σ over rows of x ⊙ d_sum, 1 value or one for each feature
  std::span<Value> d_gain = {};  ///< += Σ over rows of dropout(branch) ⊙ d_sum, sized like d_skip
  MatrixView<Value> d_sample_gain = {};  ///< the same sums over the rows of each sample
};
/// Computes the gradients whose memory is present in ResidualAddBackward.
template <typename Stream, typename Branch = Stream>
ADDNORM_API void residual_add_backward(const ResidualAddBackward<Stream, Branch>& args,
                                       std::size_t threads = 0);

/// The source of mean and deviation.
enum class StatisticsFrom {
  kInput,  ///< the values that are normalized
  kGiven,  ///< `statistics`, which do not depend on the values; for kBatch in evaluation
};

/// A norm of any kind after a residual sum: s = skip ⊙ x + gain ⊙ dropout(branch), y = norm(s).
/// LayerNorm and RMSNorm do both in one pass over memory, and an epilogue in the same pass.
template <typename Stream, typename Branch = Stream>
struct AddNormForward {
  static_assert(check_storage<Stream, Branch>());
  using Value = Arithmetic<Stream>;

  ResidualAdd<Stream, Branch> add = {};  ///< without a branch this is the norm alone
  /// Output s; may be x or branch. Absent: s is not stored. Only LayerNorm and RMSNorm allow that
  /// with a branch, or with a skip other than 1.
  MatrixView<Stream> sum = {};
  std::span<const Value> gamma = {};  ///< one for each feature or channel; empty: 1
  std::span<const Value> beta = {};   ///< one for each feature or channel; empty: 0
  std::span<const Value> alpha = {};  ///< for kDyT and kDerf: 1 value; empty: options.alpha
  std::span<const Value> shift = {};  ///< for kDyT and kDerf: 1 value; empty: 0
  /// Output y; may be x or branch, but not sum. Absent: not wanted, if the epilogue has an output.
  MatrixView<Branch> y = {};
  /// Output for backward, norm_sets() elements; optional for LayerNorm and RMSNorm.
  std::span<NormStatistics<Value>> statistics = {};
  std::size_t positions = 1;  ///< for norms over channels: the values of each channel in a row
  std::span<Value> workspace = {};  ///< for kBatch: norm_workspace() values
  StatisticsFrom statistics_from = StatisticsFrom::kInput;
  /// For LayerNorm and RMSNorm: a gate, a modulation and quantized outputs (addnorm/epilogue.h).
  /// With a gate before the norm, the statistics are those of s ⊙ act(z).
  Epilogue<Stream, Branch> epilogue = {};
};
/// Computes y and the outputs whose memory is present in AddNormForward.
template <typename Stream, typename Branch = Stream>
ADDNORM_API void add_norm_forward(const NormOptions& options,
                                  const AddNormForward<Stream, Branch>& args,
                                  std::size_t threads = 0);

/// The effect on the old values of a parameter's gradient.
enum class GradientMode {
  kAccumulate,  ///< the gradient is added to them
  kOverwrite,   ///< they are replaced
};

/// dx = skip ⊙ d_residual + dnorm(dy): a norm's backward and the residual gradient in one pass. dx
/// is the gradient of s, which the norm read. d_residual is the gradient of the next sum, to which
/// s goes directly, past the norm and its sublayer. skip is the factor of s in that sum.
///
///     dnorm = (g − mean(g) − x̂·mean(g·x̂))/deviation with g = γ·dy  (Xu et al. 2019, eq. 3–5)
///
/// Means are over each set of values that is normalized together. RMSNorm does not subtract the
/// mean of g. With given statistics neither mean is subtracted. γ's gradient is Σ dy·x̂ and β's is
/// Σ dy, over rows.
///
/// kDyT and kDerf have φ = tanh or erf and u = α·s + shift. Then dnorm = α·g·φ′(u) and x̂ = φ(u).
/// α's gradient is Σ g·φ′(u)·s over all values, and the shift's is Σ g·φ′(u).
template <typename Stream, typename Branch = Stream>
struct AddNormBackward {
  static_assert(check_storage<Stream, Branch>());
  using Value = Arithmetic<Stream>;

  MatrixView<const Stream> s = {};                         ///< the values that forward normalized
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
  /// norm_workspace() values, whose contents need not survive between calls. LayerNorm and RMSNorm
  /// need it only for d_gamma and d_beta.
  std::span<Value> workspace = {};
  GradientMode parameter_gradients = GradientMode::kAccumulate;
  std::size_t positions = 1;                                ///< as in forward
  StatisticsFrom statistics_from = StatisticsFrom::kInput;  ///< as in forward
  /// For a forward with a gate or a modulation. `s` is then still s without the gate. `workspace`
  /// needs epilogue_workspace() values, and rows have at most 16384 features, in double 8192.
  EpilogueBackward<Stream, Branch> epilogue = {};
};
/// Computes dx and the gradients whose memory is present in AddNormBackward. `options` are those of
/// forward.
template <typename Stream, typename Branch = Stream>
ADDNORM_API void add_norm_backward(const NormOptions& options,
                                   const AddNormBackward<Stream, Branch>& args,
                                   std::size_t threads = 0);

/// Returns the number of sets of values that have their own statistics: the rows; for kBatch the
/// channels, for kInstance rows·channels, for kGroup rows·groups, for kDyT and kDerf 0.
ADDNORM_API std::size_t norm_sets(const NormOptions& options, std::size_t rows,
                                  std::size_t features, std::size_t positions = 1);
/// Returns the least number of values for the workspace of forward and backward.
ADDNORM_API std::size_t norm_workspace(const NormOptions& options, std::size_t rows,
                                       std::size_t features, std::size_t positions = 1);
/// Returns norm_workspace() of LayerNorm and RMSNorm.
ADDNORM_API std::size_t add_norm_workspace(std::size_t rows, std::size_t features);
/// Returns the least number of values for the workspace of a backward with an epilogue, without a
/// modulation with 0 samples.
ADDNORM_API std::size_t epilogue_workspace(std::size_t rows, std::size_t features,
                                           std::size_t samples = 0);

/// BatchNorm's running statistics, one value for each channel.
template <typename T>
struct RunningStatistics {
  static_assert(check_value<T>());

  std::span<T> mean = {};      ///< initially 0
  std::span<T> variance = {};  ///< initially 1
  T momentum = T(0.1);
};
/// running = (1 − momentum)·running + momentum·(value of this batch). The variance is the unbiased
/// one whatever options.variance says, as in PyTorch. `count` is the number of values of a channel:
/// N·S ≥ 2.
template <typename T>
ADDNORM_API void update_running_statistics(const NormOptions& options, std::size_t count,
                                           std::span<const NormStatistics<T>> batch,
                                           const RunningStatistics<T>& running);
/// Writes statistics with which a BatchNorm normalizes each channel by the running mean and
/// variance (StatisticsFrom::kGiven).
template <typename T>
ADDNORM_API void running_to_norm_statistics(const NormOptions& options,
                                            const RunningStatistics<T>& running,
                                            std::span<NormStatistics<T>> statistics);

}  // namespace addnorm
