#ifndef ADDNORM_H
#define ADDNORM_H

/// \file
/// Add & Norm for C, and for every language that can call C: the functions of addnorm/norm.h and
/// addnorm/lanes.h, with the same bits.
///
///     addnorm_add_norm_forward_args args = {.size = sizeof args,
///                                           .rows = rows,
///                                           .features = features,
///                                           .add = {.x = x, .branch = f},
///                                           .sum = x,  // s = x + f, in place
///                                           .gamma = gamma,
///                                           .beta = beta,
///                                           .y = h};
///     if (addnorm_add_norm_forward(&args) != ADDNORM_OK) puts(addnorm_last_error());
///
/// Float32 without options has short calls, addnorm_layer_norm to addnorm_add_rms_norm_backward.
///
/// A struct begins with its `size`: set everything to zero, then `size`, then what is wanted. What
/// is 0 or NULL is absent, or means 0, the first of an enum, or, where 0 would make no sense, what
/// the field's comment says. New versions add fields at the end, and a struct of another version is
/// taken: fields that it lacks are 0, and fields that the library does not know must be 0. A size
/// that is no multiple of the struct's alignment is an error.
///
/// A matrix is row-major: element (r, c) stands at data[r·stride + c], where a stride of 0 means
/// `features`. Batch, instance and group norms take an (N, C, S) tensor in PyTorch's order, without
/// gaps, as N rows of C·S features with `positions` = S; of ADDNORM_F32 or ADDNORM_F64.
/// γ, β, factors, statistics, their gradients and the workspace consist of values: double where
/// dtype is ADDNORM_F64, else float.
///
/// Memory is the caller's, in and out. What is written may overlap other memory of the same call
/// only where its field says so, and then must be the same matrix: first element, stride and type.
/// Every other overlap is an error, but columns of one matrix beside each other do not overlap.
///
/// Nothing is allocated after a thread's first call, but for the sentence of an error. Calls from
/// several threads at once are safe. Rows are divided among `threads` threads where that pays: 0
/// means as many as OpenMP has (OMP_NUM_THREADS), 1 that all is done on the caller's thread, for
/// engines with a pool of their own. A forked process has one thread. All calls of a process share
/// a pool, whose threads sleep soon after a call. The bits depend neither on the number of threads
/// nor on the instruction set.

// NOLINTBEGIN(modernize-*, readability-identifier-naming): this is C

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "addnorm/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/// What every function returns that can fail.
typedef enum addnorm_status {
  ADDNORM_OK = 0,
  ADDNORM_INVALID_ARGUMENT = 1,  ///< an argument, or ADDNORM_CPU; nothing was written
  ADDNORM_OUT_OF_MEMORY = 2,
  ADDNORM_INTERNAL_ERROR = 3,  ///< a mistake of the library
} addnorm_status;

/// Why the last call of this thread that failed did so: one line, where, which argument, what it
/// was and what it must be. "" if none did. Valid until the thread's next call that fails.
ADDNORM_API const char* addnorm_last_error(void);

/// The library's version, "1.2.3".
ADDNORM_API const char* addnorm_version(void);
/// The same as a number that can be compared: 10203.
ADDNORM_API uint32_t addnorm_version_number(void);

/// The vector instructions in use: "avx512", "avx2", "sse4", "neon" or "scalar". The best that the
/// machine has, or what the environment variable ADDNORM_CPU names; NULL if it has none such.
ADDNORM_API const char* addnorm_instruction_set(void);

/// How matrices are stored: the residual stream, and branches and outputs of norms. 16-bit numbers
/// are uint16_t that hold their bits; what is computed is float32, or float64 for ADDNORM_F64.
typedef enum addnorm_dtype {
  ADDNORM_F32 = 0,
  ADDNORM_F64 = 1,
  ADDNORM_BF16 = 2,      ///< bfloat16: the upper half of a float32
  ADDNORM_F16 = 3,       ///< IEEE 754 binary16
  ADDNORM_F32_BF16 = 4,  ///< stream float32, branch and output bfloat16
  ADDNORM_F32_F16 = 5,   ///< stream float32, branch and output binary16
} addnorm_dtype;

/// Which values share one mean and one deviation, and whether the mean is taken away. The last two
/// have neither: they squash each value.
typedef enum addnorm_norm_kind {
  ADDNORM_LAYER_NORM = 0,     ///< the features of one row
  ADDNORM_RMS_NORM = 1,       ///< the same, without taking the mean away
  ADDNORM_BATCH_NORM = 2,     ///< one channel over all samples and positions
  ADDNORM_INSTANCE_NORM = 3,  ///< one channel of one sample over its positions
  ADDNORM_GROUP_NORM = 4,     ///< a group of channels of one sample
  ADDNORM_DYT = 5,            ///< tanh(α·x) of each value (arXiv 2503.10622)
  ADDNORM_DERF = 6,           ///< erf(α·x + shift) of each value (arXiv 2512.10938)
} addnorm_norm_kind;

/// Where ε enters the deviation.
typedef enum addnorm_epsilon_at {
  ADDNORM_EPSILON_AT_VARIANCE = 0,   ///< deviation = √(variance + ε)
  ADDNORM_EPSILON_AT_DEVIATION = 1,  ///< deviation = √variance + ε
} addnorm_epsilon_at;

/// What the sum of squares is divided by; n values share it.
typedef enum addnorm_variance {
  ADDNORM_VARIANCE_POPULATION = 0,  ///< divide by n
  ADDNORM_VARIANCE_UNBIASED = 1,    ///< divide by n − 1
} addnorm_variance;

/// What γ means.
typedef enum addnorm_gamma_form {
  ADDNORM_GAMMA_PLAIN = 0,     ///< y = γ·x̂ + β
  ADDNORM_GAMMA_ONE_PLUS = 1,  ///< y = (1 + γ)·x̂ + β, as Gemma stores it
} addnorm_gamma_form;

/// A norm as data: y = output_scale·(γ ⊙ (x − mean)/deviation + β), where ADDNORM_RMS_NORM has mean
/// 0. Instead of a quotient ADDNORM_DYT has tanh(α·x), and ADDNORM_DERF erf(α·x + shift), which
/// read no option of mean and deviation. Begin with addnorm_norm(kind). Where a pointer to one is
/// NULL the norm is LayerNorm with ε = 1e-5, but of lanes none.
typedef struct addnorm_norm_options {
  size_t size;          ///< sizeof(addnorm_norm_options)
  int32_t kind;         ///< addnorm_norm_kind
  int32_t epsilon_at;   ///< addnorm_epsilon_at
  int32_t variance;     ///< addnorm_variance
  int32_t gamma_form;   ///< addnorm_gamma_form
  double epsilon;       ///< from 0 to 1e30; where it is 0, a set of equal values gives NaN
  double output_scale;  ///< 0: 1
  size_t groups;        ///< of ADDNORM_GROUP_NORM: must divide the channels; 0: 1
  double alpha;         ///< of ADDNORM_DYT and ADDNORM_DERF: α, where none is given; 0: 0.5
} addnorm_norm_options;

/// The norm of a kind with the usual ε, 1e-5, and all else at its default.
static inline addnorm_norm_options addnorm_norm(addnorm_norm_kind kind) {
  addnorm_norm_options norm;
  memset(&norm, 0, sizeof norm);
  norm.size = sizeof norm;
  norm.kind = kind;
  norm.epsilon = 1e-5;
  return norm;
}

/// What forward leaves for backward, one for each set of values that is normalized together:
/// x̂ = ((x·scale − mean_hi) − mean_lo)·reciprocal. So mean = (mean_hi + mean_lo)/scale and
/// deviation = 1/reciprocal/scale.
typedef struct addnorm_statistics_f32 {
  float mean_hi;
  float mean_lo;
  float reciprocal;     ///< 1/deviation of the scaled values
  float scale;          ///< a power of two, 1 unless squares could overflow or vanish
  float variance;       ///< of the scaled values, without ε; of ADDNORM_RMS_NORM their mean square
  float epsilon_ratio;  ///< deviation ÷ √variance where ε is added to the deviation, else 1
} addnorm_statistics_f32;

/// Statistics for backward from the mean and the reciprocal deviation of each set of values, as
/// other libraries keep them (of ADDNORM_RMS_NORM the mean is 0), where ε is in the variance.
static inline addnorm_statistics_f32 addnorm_statistics(float mean, float reciprocal_deviation) {
  addnorm_statistics_f32 statistics;
  memset(&statistics, 0, sizeof statistics);
  statistics.mean_hi = mean;
  statistics.reciprocal = reciprocal_deviation;
  statistics.scale = 1;
  statistics.epsilon_ratio = 1;
  return statistics;
}

/// The same where the dtype is ADDNORM_F64.
typedef struct addnorm_statistics_f64 {
  double mean_hi;
  double mean_lo;
  double reciprocal;
  double scale;
  double variance;
  double epsilon_ratio;
} addnorm_statistics_f64;

/// The residual sum, s = skip ⊙ x + gain ⊙ dropout(branch), as a part of other structs; it will not
/// grow.
///
/// Inverted dropout makes each value 0 with its probability, else itself ÷ (1 − probability). Which
/// ones is a pure function of (seed, offset + row·features + column): no mask is stored, and
/// backward sees the same one.
typedef struct addnorm_residual {
  const void* x;  ///< rows × features, the residual stream
  size_t x_stride;
  const void* branch;  ///< the same shape; NULL: s = skip ⊙ x
  size_t branch_stride;
  const void* skip;            ///< skip_count values; NULL: 1
  size_t skip_count;           ///< 1, or one for each feature
  const void* gain;            ///< gain_count values; NULL: 1
  size_t gain_count;           ///< 1, or one for each feature
  double dropout_probability;  ///< at least 0 and below 1
  uint64_t dropout_seed;
  uint64_t dropout_offset;
} addnorm_residual;

/// s = skip ⊙ x + gain ⊙ dropout(branch).
typedef struct addnorm_residual_add_args {
  size_t size;    ///< sizeof(addnorm_residual_add_args)
  int32_t dtype;  ///< addnorm_dtype
  size_t rows;
  size_t features;
  addnorm_residual add;
  void* sum;  ///< s, of the stream's type; may be x or branch
  size_t sum_stride;
  size_t threads;  ///< among which rows are divided; 0: as many as OpenMP has
} addnorm_residual_add_args;

/// Writes s into `sum`.
ADDNORM_API addnorm_status addnorm_residual_add(const addnorm_residual_add_args* args);

/// The gradients of addnorm_residual_add's branch and factors, from d_sum, the gradient of s. That
/// of x by this way is skip ⊙ d_sum: addnorm_add_norm_backward's d_residual, or
/// addnorm_residual_add of d_sum without a branch.
typedef struct addnorm_residual_add_backward_args {
  size_t size;    ///< sizeof(addnorm_residual_add_backward_args)
  int32_t dtype;  ///< addnorm_dtype
  size_t rows;
  size_t features;
  addnorm_residual add;  ///< as in forward; its branch is needed for d_gain alone
  const void* d_sum;     ///< rows × features, of the stream's type
  size_t d_sum_stride;
  void* d_branch;  ///< gain ⊙ mask ⊙ d_sum, of the branch's type; may be d_sum; NULL: not wanted
  size_t d_branch_stride;
  void* d_skip;         ///< += Σ over rows of x ⊙ d_sum; NULL: not wanted
  size_t d_skip_count;  ///< 1, or one for each feature
  void* d_gain;         ///< += Σ over rows of dropout(branch) ⊙ d_sum; NULL: not wanted
  size_t d_gain_count;  ///< 1, or one for each feature
  size_t threads;       ///< among which rows are divided; 0: as many as OpenMP has
} addnorm_residual_add_backward_args;

/// Computes the gradients whose pointers are not NULL.
ADDNORM_API addnorm_status
addnorm_residual_add_backward(const addnorm_residual_add_backward_args* args);

/// Where mean and deviation come from.
typedef enum addnorm_statistics_from {
  ADDNORM_STATISTICS_FROM_INPUT = 0,  ///< the values that are normalized
  ADDNORM_STATISTICS_GIVEN = 1,       ///< of ADDNORM_BATCH_NORM: `statistics`; evaluation
} addnorm_statistics_from;

/// A norm of any kind, with the residual sum that comes before it: s = skip ⊙ x + gain ⊙
/// dropout(branch), y = norm(s). LayerNorm and RMSNorm do both in one pass over memory. Without a
/// branch it is the norm alone.
typedef struct addnorm_add_norm_forward_args {
  size_t size;    ///< sizeof(addnorm_add_norm_forward_args)
  int32_t dtype;  ///< addnorm_dtype
  size_t rows;
  size_t features;
  const addnorm_norm_options* norm;
  addnorm_residual add;  ///< without a branch this is the norm alone
  /// Where s goes, of the stream's type; may be x or branch; NULL: not kept. Other norms than
  /// LayerNorm and RMSNorm allow that only without a branch and with a skip of 1.
  void* sum;
  size_t sum_stride;
  const void* gamma;  ///< one for each feature or channel; NULL: 1
  const void* beta;   ///< one for each feature or channel; NULL: 0
  void* y;            ///< rows × features, of the branch's type; may be x or branch, but not sum
  size_t y_stride;
  /// For backward, addnorm_statistics_f32 or _f64, one for each set of values that is normalized
  /// together: a row; elsewhere addnorm_norm_sizes() says how many. May be NULL for a norm of rows;
  /// ADDNORM_DYT and ADDNORM_DERF have none.
  void* statistics;
  size_t threads;           ///< among which rows are divided; 0: as many as OpenMP has
  size_t positions;         ///< of norms over channels: the values of each channel in a row; 0: 1
  void* workspace;          ///< of ADDNORM_BATCH_NORM; holds nothing between calls
  size_t workspace_size;    ///< values: at least addnorm_norm_sizes()'s
  int32_t statistics_from;  ///< addnorm_statistics_from
  const void* alpha;        ///< of ADDNORM_DYT and ADDNORM_DERF: 1 value; NULL: norm->alpha
  const void* shift;        ///< likewise; NULL: 0
} addnorm_add_norm_forward_args;

/// Writes y, and s and the statistics where their pointers are not NULL.
ADDNORM_API addnorm_status addnorm_add_norm_forward(const addnorm_add_norm_forward_args* args);

/// What becomes of the values that stand where a parameter's gradient goes.
typedef enum addnorm_gradient_mode {
  ADDNORM_GRADIENT_ACCUMULATE = 0,  ///< the gradient is added to them
  ADDNORM_GRADIENT_OVERWRITE = 1,   ///< they are replaced
} addnorm_gradient_mode;

/// dx = skip ⊙ d_residual + dnorm(dy): a norm's backward and the residual gradient in one pass. dx
/// is the gradient of s, which the norm read; d_residual that of the next sum, to which s
/// goes directly, past the norm and its sublayer, multiplied with that sum's `skip`.
///
///     dnorm = (g − mean(g) − x̂·mean(g·x̂))/deviation with g = γ·dy  (Xu et al. 2019, eq. 3–5)
///
/// Means are over each set of values that is normalized together. RMSNorm takes no mean away from
/// g; where statistics are given, nothing is. γ's gradient is Σ dy·x̂, β's is Σ dy, over rows.
///
/// Of ADDNORM_DYT and ADDNORM_DERF, with φ = tanh or erf and u = α·s + shift: dnorm = α·g·φ′(u),
/// x̂ = φ(u), and over all values α's gradient is Σ g·φ′(u)·s, that of the shift Σ g·φ′(u).
typedef struct addnorm_add_norm_backward_args {
  size_t size;                  ///< sizeof(addnorm_add_norm_backward_args)
  int32_t dtype;                ///< addnorm_dtype
  int32_t parameter_gradients;  ///< addnorm_gradient_mode, of d_gamma and d_beta
  size_t rows;
  size_t features;
  const addnorm_norm_options* norm;  ///< as in forward
  const void* s;                     ///< what forward normalized, of the stream's type
  size_t s_stride;
  const void* statistics;  ///< from forward
  const void* gamma;       ///< as in forward
  const void* dy;          ///< rows × features, of the branch's type
  size_t dy_stride;
  const void* d_residual;  ///< rows × features, of the stream's type; NULL: none
  size_t d_residual_stride;
  const void* skip;   ///< skip_count values; NULL: 1
  size_t skip_count;  ///< 1, or one for each feature
  void* dx;           ///< rows × features, of the stream's type; may be s, dy or d_residual
  size_t dx_stride;
  void* d_gamma;  ///< one for each feature or channel; NULL: not wanted
  void* d_beta;   ///< one for each feature or channel; NULL: not wanted
  /// Holds nothing between calls. LayerNorm and RMSNorm need it for d_gamma and d_beta alone.
  void* workspace;
  size_t workspace_size;    ///< values: at least addnorm_norm_sizes()'s
  size_t threads;           ///< among which rows are divided; 0: as many as OpenMP has
  size_t positions;         ///< as in forward
  int32_t statistics_from;  ///< as in forward
  const void* alpha;        ///< as in forward
  const void* shift;        ///< as in forward
  void* d_alpha;            ///< 1 value; NULL: not wanted
  void* d_shift;            ///< 1 value; NULL: not wanted
} addnorm_add_norm_backward_args;

/// Writes dx, and the gradients of γ and β where their pointers are not NULL.
ADDNORM_API addnorm_status addnorm_add_norm_backward(const addnorm_add_norm_backward_args* args);

/// Into `sets`, how many sets of values have statistics of their own: rows, for ADDNORM_BATCH_NORM
/// channels, for ADDNORM_INSTANCE_NORM rows·channels, for ADDNORM_GROUP_NORM rows·groups, for
/// ADDNORM_DYT and ADDNORM_DERF none. Into `workspace`, how many values the workspace of forward
/// and backward must hold at least. Either pointer may be NULL.
ADDNORM_API addnorm_status addnorm_norm_sizes(const addnorm_norm_options* norm, size_t rows,
                                              size_t features, size_t positions, size_t* sets,
                                              size_t* workspace);
/// How many values the workspace of LayerNorm's and RMSNorm's backward must hold at least.
ADDNORM_API size_t addnorm_add_norm_workspace(size_t rows, size_t features);

/// The short calls: float32, rows without gaps, γ and β there or NULL (1 and 0). They use as many
/// threads as a struct whose `threads` is 0; a caller that needs another number takes the struct.
///
/// y = γ ⊙ (x − mean)/√(variance + epsilon) + β, by rows. `statistics`, one for each row, are what
/// backward needs; NULL: not wanted. y may be x.
ADDNORM_API addnorm_status addnorm_layer_norm(size_t rows, size_t features, const float* x,
                                              const float* gamma, const float* beta, double epsilon,
                                              float* y, addnorm_statistics_f32* statistics);
/// y = γ ⊙ x/√(mean of x² + epsilon), by rows.
ADDNORM_API addnorm_status addnorm_rms_norm(size_t rows, size_t features, const float* x,
                                            const float* gamma, double epsilon, float* y,
                                            addnorm_statistics_f32* statistics);
/// sum = x + branch, y = LayerNorm(sum). sum may be x or branch, or NULL: not kept; y may be x or
/// branch, but not sum.
ADDNORM_API addnorm_status addnorm_add_layer_norm(size_t rows, size_t features, const float* x,
                                                  const float* branch, const float* gamma,
                                                  const float* beta, double epsilon, float* sum,
                                                  float* y, addnorm_statistics_f32* statistics);
/// sum = x + branch, y = RMSNorm(sum), likewise.
ADDNORM_API addnorm_status addnorm_add_rms_norm(size_t rows, size_t features, const float* x,
                                                const float* branch, const float* gamma,
                                                double epsilon, float* sum, float* y,
                                                addnorm_statistics_f32* statistics);
/// dx = d_residual + the gradient through LayerNorm of s, which forward normalized; d_residual, the
/// gradient of s by any other way, may be NULL. To d_gamma and d_beta the gradients of γ and β are
/// added; NULL: not wanted. The workspace holds addnorm_add_norm_workspace() values; NULL where
/// neither is wanted. dx may be s, dy or d_residual.
ADDNORM_API addnorm_status addnorm_add_layer_norm_backward(
    size_t rows, size_t features, const float* s, const addnorm_statistics_f32* statistics,
    const float* gamma, const float* dy, const float* d_residual, float* dx, float* d_gamma,
    float* d_beta, float* workspace);
/// The same through RMSNorm.
ADDNORM_API addnorm_status addnorm_add_rms_norm_backward(size_t rows, size_t features,
                                                         const float* s,
                                                         const addnorm_statistics_f32* statistics,
                                                         const float* gamma, const float* dy,
                                                         const float* d_residual, float* dx,
                                                         float* d_gamma, float* workspace);

/// From one sublayer's output to the next one's input in a residual stream of several lanes, for
/// each row, as a part of other structs; it will not grow:
///
///     X′ = A·X + B·dropout(F)     A, n′ × n numbers, carries; B, n′ × q, writes
///     y  = norm(R·X′)             R, k × n′, reads
///
/// X has n lanes, the branch F has q and y has k: usually 1 each. Lanes are rows × lanes ×
/// features: element (row r, lane i, feature c) stands at data[(r·lanes + i)·stride + c], where a
/// stride of 0 means `features`. A, B and R consist of values, row by row and without gaps, and are
/// the same for all rows or made for each. Dropout is as in addnorm_residual, of a branch of one
/// lane.
typedef struct addnorm_lanes {
  size_t lanes;         ///< n
  size_t made_lanes;    ///< n′; 0: n
  size_t branch_lanes;  ///< q; 0: 1
  size_t read_lanes;    ///< k; 0: 1
  const void* x;        ///< rows × n × features, the residual stream
  size_t x_stride;
  const void* branch;  ///< rows × q × features; NULL, as write then must be: nothing is written
  size_t branch_stride;
  const void* carry;           ///< A; NULL: X′ = X + …, n′ = n
  size_t carry_rows;           ///< of how many rows there is an A: 1 or `rows`; 0: 1
  const void* write;           ///< B
  size_t write_rows;           ///< likewise
  const void* read;            ///< R; NULL: nothing is read, and there is no y
  size_t read_rows;            ///< likewise
  double dropout_probability;  ///< at least 0 and below 1
  uint64_t dropout_seed;
  uint64_t dropout_offset;
} addnorm_lanes;

/// X′ = A·X + B·dropout(F) and y = norm(R·X′), in one pass over memory. No more than 16 lanes are
/// mixed; of x that is read alone, without carry and branch, there are any number.
typedef struct addnorm_lanes_forward_args {
  size_t size;    ///< sizeof(addnorm_lanes_forward_args)
  int32_t dtype;  ///< addnorm_dtype
  size_t rows;
  size_t features;
  addnorm_lanes mix;
  /// X′, rows × n′ × features, of the stream's type; may be x. NULL only where X′ = X, without
  /// carry and branch.
  void* sum;
  size_t sum_stride;
  const addnorm_norm_options* norm;  ///< LayerNorm or RMSNorm, of one read; NULL: none, y = R·X′
  const void* gamma;                 ///< of the norm, one for each feature; NULL: 1
  const void* beta;                  ///< likewise; NULL: 0
  void* y;                           ///< rows × k × features, of the branch's type; may be branch
  size_t y_stride;
  /// Of the norm, for backward: addnorm_statistics_f32 or _f64, one for each row. May be NULL.
  void* statistics;
  size_t threads;  ///< among which rows are divided; 0: as many as OpenMP has
} addnorm_lanes_forward_args;

/// Writes X′ and y, and the statistics where their pointer is not NULL.
ADDNORM_API addnorm_status addnorm_lanes_forward(const addnorm_lanes_forward_args* args);

/// The gradients of addnorm_lanes_forward. With dz that of R·X′, by the norm's backward or dy
/// itself, and G = d_sum + Rᵀ·dz:
///
///     dX = Aᵀ·G,   dF = mask ⊙ Bᵀ·G,   dA = G·Xᵀ,   dB = G·dropout(F)ᵀ,   dR = dz·X′ᵀ
///
/// The gradients of A, B and R have as many rows as these have: where that is one, they are the sum
/// over all. X′ is computed again.
typedef struct addnorm_lanes_backward_args {
  size_t size;                  ///< sizeof(addnorm_lanes_backward_args)
  int32_t dtype;                ///< addnorm_dtype
  int32_t parameter_gradients;  ///< addnorm_gradient_mode, of d_carry … d_beta
  size_t rows;
  size_t features;
  addnorm_lanes mix;                 ///< as in forward; of x what was there before it
  const addnorm_norm_options* norm;  ///< as in forward
  const void* gamma;                 ///< as in forward
  const void* statistics;            ///< of the norm, from forward
  const void* d_sum;  ///< of X′, what comes from behind, of the stream's type; NULL: 0
  size_t d_sum_stride;
  const void* dy;  ///< of y, where there is a read, of the branch's type
  size_t dy_stride;
  void* dx;  ///< rows × n × features, of the stream's type; may be d_sum
  size_t dx_stride;
  void* d_branch;  ///< rows × q × features, of the branch's type; may be dy; NULL: not wanted
  size_t d_branch_stride;
  void* d_carry;          ///< values, as many as of A; NULL: not wanted
  void* d_write;          ///< as many as of B; NULL: not wanted
  void* d_read;           ///< as many as of R; NULL: not wanted
  void* d_gamma;          ///< one for each feature; NULL: not wanted
  void* d_beta;           ///< one for each feature; NULL: not wanted
  void* workspace;        ///< holds nothing between calls; for gradients that are summed over rows
  size_t workspace_size;  ///< values: at least addnorm_lanes_workspace()
  size_t threads;         ///< among which rows are divided; 0: as many as OpenMP has
} addnorm_lanes_backward_args;

/// Writes dx, and the other gradients where their pointers are not NULL.
ADDNORM_API addnorm_status addnorm_lanes_backward(const addnorm_lanes_backward_args* args);

/// How many values the workspace of addnorm_lanes_backward must hold at least, for so many lanes of
/// x, or of X′ where those are more.
ADDNORM_API size_t addnorm_lanes_workspace(size_t rows, size_t lanes, size_t features);

/// BatchNorm's memory of the batches it has seen.
typedef struct addnorm_running_statistics_args {
  size_t size;    ///< sizeof(addnorm_running_statistics_args)
  int32_t dtype;  ///< ADDNORM_F32 or ADDNORM_F64
  size_t channels;
  const addnorm_norm_options* norm;  ///< as in forward
  void* mean;                        ///< one for each channel, 0 at first
  void* variance;                    ///< one for each channel, 1 at first
  void* statistics;                  ///< one for each channel
  double momentum;                   ///< of update, 0.1 in PyTorch
  size_t count;                      ///< of update: the values of a channel, at least 2
} addnorm_running_statistics_args;

/// running = (1 − momentum)·running + momentum·(of this batch), whose `statistics` forward has
/// left. The variance is the unbiased one whatever the options say, as in PyTorch.
ADDNORM_API addnorm_status
addnorm_update_running_statistics(const addnorm_running_statistics_args* args);

/// Writes the `statistics` to be given to an ADDNORM_BATCH_NORM that is to normalize each channel
/// by the running ones.
ADDNORM_API addnorm_status
addnorm_running_to_norm_statistics(const addnorm_running_statistics_args* args);

#ifdef __cplusplus
}
#endif

// NOLINTEND(modernize-*, readability-identifier-naming)

#endif
