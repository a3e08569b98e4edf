#ifndef ADDNORM_H
#define ADDNORM_H

/// \file
/// Add & Norm for C and every language that can call C: the functions of addnorm/norm.h and
/// addnorm/lanes.h. The results are bit for bit the same.
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
/// Float32 without options has short calls: addnorm_layer_norm to addnorm_add_rms_norm_backward.
///
/// A struct begins with its `size`. Set everything to zero, then set `size` and the fields that you
/// need. A field that is 0 or NULL is absent, 0 or the first value of its enum. Where 0 would make
/// no sense, the field's comment says what it means. New versions add fields at the end. A struct
/// of another version is accepted: fields that it lacks are 0, and fields that the library does not
/// know must be 0. A size that is not a multiple of the struct's alignment is an error.
///
/// A matrix is row-major: element (r, c) is data[r·stride + c], where a stride of 0 means
/// `features`. Batch, instance and group norms take an (N, C, S) tensor in PyTorch's order, without
/// gaps, as N rows of C·S features with `positions` = S. They support ADDNORM_F32 and ADDNORM_F64.
/// γ, β, factors, statistics, their gradients and the workspace consist of values: double for
/// ADDNORM_F64, else float.
///
/// The caller owns all memory, inputs and outputs. An output may overlap other memory of the same
/// call only where its field allows it, and then must be the same matrix: same first element,
/// stride and type. Every other overlap is an error. Columns of one matrix side by side do not
/// overlap.
///
/// After a thread's first call nothing is allocated, except for an error message. Calls from
/// several threads at once are safe. Rows are divided among `threads` threads where that is faster.
/// 0 means the number of OpenMP threads (OMP_NUM_THREADS). 1 runs everything on the caller's
/// thread, for engines with their own thread pool. A forked process has one thread. All calls of a
/// process share a pool, whose threads sleep soon after a call. The bits depend neither on the
/// number of threads nor on the instruction set.

// NOLINTBEGIN(modernize-*, readability-identifier-naming): this is C

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "addnorm/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The result of every function that can fail.
typedef enum addnorm_status {
  ADDNORM_OK = 0,
  ADDNORM_INVALID_ARGUMENT = 1,  ///< an argument or ADDNORM_CPU is invalid; nothing was written
  ADDNORM_OUT_OF_MEMORY = 2,
  ADDNORM_INTERNAL_ERROR = 3,  ///< a bug in the library
} addnorm_status;

/// Returns the error message of this thread's last failed call, "" if no call failed. It is one
/// line: where, which argument, its value and what is allowed. Valid until the thread's next failed
/// call.
ADDNORM_API const char* addnorm_last_error(void);

/// Returns the library's version, "1.2.3".
ADDNORM_API const char* addnorm_version(void);
/// Returns the version as a number that can be compared: 10203.
ADDNORM_API uint32_t addnorm_version_number(void);

/// Returns the vector instructions in use: "avx512", "avx2", "sse4", "neon" or "scalar". They are
/// the best of this machine, or those named by the environment variable ADDNORM_CPU. Returns NULL
/// if the machine lacks the named ones.
ADDNORM_API const char* addnorm_instruction_set(void);

/// The storage types of matrices: the residual stream, and branches and outputs of norms. A 16-bit
/// number is stored as its bits in a uint16_t. Arithmetic is in float32, or in float64 for
/// ADDNORM_F64.
typedef enum addnorm_dtype {
  ADDNORM_F32 = 0,
  ADDNORM_F64 = 1,
  ADDNORM_BF16 = 2,      ///< bfloat16: the upper half of a float32
  ADDNORM_F16 = 3,       ///< IEEE 754 binary16
  ADDNORM_F32_BF16 = 4,  ///< stream float32, branch and output bfloat16
  ADDNORM_F32_F16 = 5,   ///< stream float32, branch and output binary16
} addnorm_dtype;

/// The kind of a norm: which values share one mean and one deviation, and whether the mean is
/// subtracted. The last two have neither: they squash each value.
typedef enum addnorm_norm_kind {
  ADDNORM_LAYER_NORM = 0,     ///< the features of one row
  ADDNORM_RMS_NORM = 1,       ///< the features of one row; the mean is not subtracted
  ADDNORM_BATCH_NORM = 2,     ///< one channel over all samples and positions
  ADDNORM_INSTANCE_NORM = 3,  ///< one channel of one sample over its positions
  ADDNORM_GROUP_NORM = 4,     ///< a group of channels of one sample
  ADDNORM_DYT = 5,            ///< tanh(α·x) of each value (arXiv 2503.10622)
  ADDNORM_DERF = 6,           ///< erf(α·x + shift) of each value (arXiv 2512.10938)
} addnorm_norm_kind;

/// The place of ε in the deviation.
typedef enum addnorm_epsilon_at {
  ADDNORM_EPSILON_AT_VARIANCE = 0,   ///< deviation = √(variance + ε)
  ADDNORM_EPSILON_AT_DEVIATION = 1,  ///< deviation = √variance + ε
} addnorm_epsilon_at;

/// The divisor of the sum of squares of n values that share a variance.
typedef enum addnorm_variance {
  ADDNORM_VARIANCE_POPULATION = 0,  ///< divide by n
  ADDNORM_VARIANCE_UNBIASED = 1,    ///< divide by n − 1
} addnorm_variance;

/// The meaning of γ.
typedef enum addnorm_gamma_form {
  ADDNORM_GAMMA_PLAIN = 0,     ///< y = γ·x̂ + β
  ADDNORM_GAMMA_ONE_PLUS = 1,  ///< y = (1 + γ)·x̂ + β, as Gemma stores it
} addnorm_gamma_form;

/// A norm as data: y = output_scale·(γ ⊙ (x − mean)/deviation + β), where ADDNORM_RMS_NORM has mean
/// 0. ADDNORM_DYT replaces the quotient by tanh(α·x), and ADDNORM_DERF by erf(α·x + shift); they
/// ignore the options of mean and deviation. Initialize it with addnorm_norm(kind). A NULL pointer
/// to it means LayerNorm with ε = 1e-5; for lanes it means no norm.
typedef struct addnorm_norm_options {
  size_t size;          ///< sizeof(addnorm_norm_options)
  int32_t kind;         ///< addnorm_norm_kind
  int32_t epsilon_at;   ///< addnorm_epsilon_at
  int32_t variance;     ///< addnorm_variance
  int32_t gamma_form;   ///< addnorm_gamma_form
  double epsilon;       ///< from 0 to 1e30; with 0, a set of equal values gives NaN
  double output_scale;  ///< 0: 1
  size_t groups;        ///< for ADDNORM_GROUP_NORM; must divide the channels; 0: 1
  double alpha;         ///< for ADDNORM_DYT and ADDNORM_DERF: α unless it is passed; 0: 0.5
} addnorm_norm_options;

/// Returns the norm of a kind with ε = 1e-5 and all other options at their defaults.
static inline addnorm_norm_options addnorm_norm(addnorm_norm_kind kind) {
  addnorm_norm_options norm;
  memset(&norm, 0, sizeof norm);
  norm.size = sizeof norm;
  norm.kind = kind;
  norm.epsilon = 1e-5;
  return norm;
}

/// Statistics that forward writes for backward, one for each set of values that is normalized
/// together: x̂ = ((x·scale − mean_hi) − mean_lo)·reciprocal. So mean = (mean_hi + mean_lo)/scale
/// and deviation = 1/reciprocal/scale.
typedef struct addnorm_statistics_f32 {
  float mean_hi;
  float mean_lo;
  float reciprocal;  ///< 1/deviation of the scaled values
  float scale;       ///< a power of two; 1 unless squares could overflow or vanish
  float variance;    ///< of the scaled values, without ε; for ADDNORM_RMS_NORM their mean square
  float epsilon_ratio;  ///< deviation ÷ √variance if ε is added to the deviation, else 1
} addnorm_statistics_f32;

/// Returns statistics for backward, made from the mean and the reciprocal deviation that other
/// libraries store. The mean is 0 for ADDNORM_RMS_NORM. ε must be in the variance.
static inline addnorm_statistics_f32 addnorm_statistics(float mean, float reciprocal_deviation) {
  addnorm_statistics_f32 statistics;
  memset(&statistics, 0, sizeof statistics);
  statistics.mean_hi = mean;
  statistics.reciprocal = reciprocal_deviation;
  statistics.scale = 1;
  statistics.epsilon_ratio = 1;
  return statistics;
}

/// Statistics for ADDNORM_F64, as in addnorm_statistics_f32.
typedef struct addnorm_statistics_f64 {
  double mean_hi;
  double mean_lo;
  double reciprocal;
  double scale;
  double variance;
  double epsilon_ratio;
} addnorm_statistics_f64;

/// The residual sum, s = skip ⊙ x + gain ⊙ dropout(branch). It is a member of other structs, so it
/// will not grow.
///
/// Inverted dropout sets a value to 0 with the given probability and else divides it by 1 −
/// probability. The choice is a pure function of (seed, offset + row·features + column): no mask is
/// stored, and backward makes the same choice.
typedef struct addnorm_residual {
  const void* x;  ///< rows × features, the residual stream
  size_t x_stride;
  const void* branch;  ///< the same shape; NULL: s = skip ⊙ x
  size_t branch_stride;
  const void* skip;            ///< skip_count values; NULL: 1
  size_t skip_count;           ///< 1, or one value for each feature
  const void* gain;            ///< gain_count values; NULL: 1
  size_t gain_count;           ///< 1, or one value for each feature
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
  size_t threads;  ///< number of threads; 0: as many as OpenMP has
} addnorm_residual_add_args;

/// Writes s into `sum`.
ADDNORM_API addnorm_status addnorm_residual_add(const addnorm_residual_add_args* args);

/// The gradients of addnorm_residual_add's branch and factors, from d_sum, the gradient of s. The
/// gradient of x through this sum is skip ⊙ d_sum. It is addnorm_add_norm_backward's d_residual, or
/// addnorm_residual_add of d_sum without a branch.
typedef struct addnorm_residual_add_backward_args {
  size_t size;    ///< sizeof(addnorm_residual_add_backward_args)
  int32_t dtype;  ///< addnorm_dtype
  size_t rows;
  size_t features;
  addnorm_residual add;  ///< as in forward; its branch is needed only for d_gain
  const void* d_sum;     ///< rows × features, of the stream's type
  size_t d_sum_stride;
  void* d_branch;  ///< gain ⊙ mask ⊙ d_sum, of the branch's type; may be d_sum; NULL: not wanted
  size_t d_branch_stride;
  void* d_skip;         ///< += Σ over rows of x ⊙ d_sum; NULL: not wanted
  size_t d_skip_count;  ///< 1, or one for each feature
  void* d_gain;         ///< += Σ over rows of dropout(branch) ⊙ d_sum; NULL: not wanted
  size_t d_gain_count;  ///< 1, or one for each feature
  size_t threads;       ///< number of threads; 0: as many as OpenMP has
} addnorm_residual_add_backward_args;

/// Computes the gradients whose pointers are not NULL.
ADDNORM_API addnorm_status
addnorm_residual_add_backward(const addnorm_residual_add_backward_args* args);

/// The source of mean and deviation.
typedef enum addnorm_statistics_from {
  ADDNORM_STATISTICS_FROM_INPUT = 0,  ///< the values that are normalized
  ADDNORM_STATISTICS_GIVEN = 1,       ///< `statistics`, in evaluation; only for ADDNORM_BATCH_NORM
} addnorm_statistics_from;

/// The function of a gate, act(z).
typedef enum addnorm_gate_function {
  ADDNORM_GATE_IDENTITY = 0,  ///< z
  ADDNORM_GATE_SIGMOID = 1,   ///< 1/(1 + exp(−z))
  ADDNORM_GATE_SILU = 2,      ///< z/(1 + exp(−z))
} addnorm_gate_function;

/// The place of a gate.
typedef enum addnorm_gate_place {
  ADDNORM_GATE_AFTER_NORM = 0,   ///< norm(s) ⊙ act(z)
  ADDNORM_GATE_BEFORE_NORM = 1,  ///< norm(s ⊙ act(z))
} addnorm_gate_place;

/// The type of quantized values.
typedef enum addnorm_quantized_type {
  ADDNORM_NOT_QUANTIZED = 0,
  ADDNORM_INT8 = 1,
  ADDNORM_FLOAT8_E4M3 = 2,  ///< with 4 bits of exponent, at most 448, and without infinity
  ADDNORM_Q8_0 = 3,         ///< blocks of llama.cpp: a float16 scale and 32 int8, 34 bytes
} addnorm_quantized_type;

/// The steps after a LayerNorm or RMSNorm in the same pass over memory. Every part is optional.
///
///     y = (norm(s) ⊙ act(z)) ⊙ (1 + scale) + shift        a gate, and a modulation by sample
///
/// A sample is rows ÷ samples consecutive rows. Quantized values that share a scale have scale =
/// max|y|/127, or max|y|/448, and are y·(1/scale), rounded to nearest even. If one of these y is
/// NaN or infinite, the scale is NaN and the values are 0. With a given scale, values saturate.
typedef struct addnorm_epilogue {
  size_t size;    ///< sizeof(addnorm_epilogue)
  const void* z;  ///< rows × features, of the branch's type; NULL: no gate
  size_t z_stride;
  int32_t gate_function;  ///< addnorm_gate_function
  int32_t gate_place;     ///< addnorm_gate_place
  const void* scale;      ///< samples × features; NULL: 0
  size_t scale_stride;
  const void* shift;  ///< samples × features; NULL: 0
  size_t shift_stride;
  size_t samples;          ///< must divide the rows; 0 without scale and shift
  int32_t quantized_type;  ///< addnorm_quantized_type
  float given_scale;       ///< one scale for all values; 0: scales are computed
  void* quantized;  ///< output, rows × features; for ADDNORM_Q8_0 rows × features ÷ 32 blocks
  size_t quantized_stride;  ///< in values, or in blocks
  /// The number of values of a row that share a scale: 0 (all) or 32, 64, 128, 256, 512 or 1024.
  size_t block;
  float* scales;  ///< output for int8 and float8: rows × 1, or rows × features ÷ block
  size_t scales_stride;
  void* unrounded;  ///< output y as float, of ADDNORM_F64 as double; NULL: not wanted
  size_t unrounded_stride;
} addnorm_epilogue;

/// The backward of an epilogue's gate and modulation. With m = norm(s) ⊙ act(z): d_shift = Σ dy,
/// d_scale = Σ dy ⊙ m, by sample, and dz is the gradient of z.
typedef struct addnorm_epilogue_backward {
  size_t size;                      ///< sizeof(addnorm_epilogue_backward)
  const addnorm_epilogue* forward;  ///< as in forward; its outputs are ignored
  const void* beta;                 ///< forward's β; NULL: 0
  void* dz;  ///< rows × features, of the branch's type; may be z or dy; NULL: not wanted
  size_t dz_stride;
  void* d_scale;  ///< samples × features; NULL: not wanted
  size_t d_scale_stride;
  void* d_shift;  ///< samples × features; NULL: not wanted
  size_t d_shift_stride;
} addnorm_epilogue_backward;

/// A norm of any kind after a residual sum: s = skip ⊙ x + gain ⊙ dropout(branch), y = norm(s).
/// LayerNorm and RMSNorm do both in one pass over memory. Without a branch it is the norm alone.
typedef struct addnorm_add_norm_forward_args {
  size_t size;    ///< sizeof(addnorm_add_norm_forward_args)
  int32_t dtype;  ///< addnorm_dtype
  size_t rows;
  size_t features;
  const addnorm_norm_options* norm;
  addnorm_residual add;  ///< without a branch this is the norm alone
  /// Output s, of the stream's type. It may be x or branch. NULL discards s; other norms than
  /// LayerNorm and RMSNorm then require no branch and a skip of 1.
  void* sum;
  size_t sum_stride;
  const void* gamma;  ///< one for each feature or channel; NULL: 1
  const void* beta;   ///< one for each feature or channel; NULL: 0
  void* y;            ///< rows × features, of the branch's type; may be x or branch, but not sum
  size_t y_stride;
  /// Output for backward: addnorm_statistics_f32 or _f64, one for each set of values that is
  /// normalized together. For a norm of rows that is one for each row, and NULL is allowed. For
  /// other norms addnorm_norm_sizes() returns the number. ADDNORM_DYT and ADDNORM_DERF have none.
  void* statistics;
  size_t threads;           ///< number of threads; 0: as many as OpenMP has
  size_t positions;         ///< for norms over channels: the values of each channel in a row; 0: 1
  void* workspace;          ///< for ADDNORM_BATCH_NORM; its contents need not survive between calls
  size_t workspace_size;    ///< in values; at least that of addnorm_norm_sizes()
  int32_t statistics_from;  ///< addnorm_statistics_from
  const void* alpha;        ///< for ADDNORM_DYT and ADDNORM_DERF: 1 value; NULL: norm->alpha
  const void* shift;        ///< for ADDNORM_DYT and ADDNORM_DERF: 1 value; NULL: 0
  /// For ADDNORM_LAYER_NORM and ADDNORM_RMS_NORM; NULL: none. If it is quantized or has unrounded
  /// y, `y` may be NULL.
  const addnorm_epilogue* epilogue;
} addnorm_add_norm_forward_args;

/// Writes y, and s and the statistics where their pointers are not NULL.
ADDNORM_API addnorm_status addnorm_add_norm_forward(const addnorm_add_norm_forward_args* args);

/// The effect on the old values of a parameter's gradient.
typedef enum addnorm_gradient_mode {
  ADDNORM_GRADIENT_ACCUMULATE = 0,  ///< the gradient is added to them
  ADDNORM_GRADIENT_OVERWRITE = 1,   ///< they are replaced
} addnorm_gradient_mode;

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
/// ADDNORM_DYT and ADDNORM_DERF have φ = tanh or erf and u = α·s + shift. Then dnorm = α·g·φ′(u)
/// and x̂ = φ(u). α's gradient is Σ g·φ′(u)·s over all values, and the shift's is Σ g·φ′(u).
typedef struct addnorm_add_norm_backward_args {
  size_t size;                  ///< sizeof(addnorm_add_norm_backward_args)
  int32_t dtype;                ///< addnorm_dtype
  int32_t parameter_gradients;  ///< addnorm_gradient_mode of d_gamma, d_beta, d_alpha and d_shift
  size_t rows;
  size_t features;
  const addnorm_norm_options* norm;  ///< as in forward
  const void* s;                     ///< the values that forward normalized, of the stream's type
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
  /// Its contents need not survive between calls. LayerNorm and RMSNorm need it only for d_gamma
  /// and d_beta.
  void* workspace;
  size_t workspace_size;    ///< in values; at least that of addnorm_norm_sizes()
  size_t threads;           ///< number of threads; 0: as many as OpenMP has
  size_t positions;         ///< as in forward
  int32_t statistics_from;  ///< as in forward
  const void* alpha;        ///< as in forward
  const void* shift;        ///< as in forward
  void* d_alpha;            ///< 1 value; NULL: not wanted
  void* d_shift;            ///< 1 value; NULL: not wanted
  /// NULL: none. With it, the workspace holds addnorm_epilogue_workspace() values.
  const addnorm_epilogue_backward* epilogue;
} addnorm_add_norm_backward_args;

/// Writes dx, and the gradients of parameters whose pointers are not NULL.
ADDNORM_API addnorm_status addnorm_add_norm_backward(const addnorm_add_norm_backward_args* args);

/// Writes into `sets` the number of sets of values that have their own statistics. It is rows; for
/// ADDNORM_BATCH_NORM channels, for ADDNORM_INSTANCE_NORM rows·channels, for ADDNORM_GROUP_NORM
/// rows·groups, for ADDNORM_DYT and ADDNORM_DERF 0. Writes into `workspace` the least number of
/// values that the workspace of forward and backward must hold. Either pointer may be NULL.
ADDNORM_API addnorm_status addnorm_norm_sizes(const addnorm_norm_options* norm, size_t rows,
                                              size_t features, size_t positions, size_t* sets,
                                              size_t* workspace);
/// Returns the least number of values for the workspace of LayerNorm's and RMSNorm's backward.
ADDNORM_API size_t addnorm_add_norm_workspace(size_t rows, size_t features);
/// Returns the least number of values for the workspace of a backward with an epilogue.
ADDNORM_API size_t addnorm_epilogue_workspace(size_t rows, size_t features, size_t samples);

/// The short calls take float32 and rows without gaps. γ and β may be NULL (1 and 0). The number of
/// threads is that of `threads` = 0; use the struct for another number.
///
/// y = γ ⊙ (x − mean)/√(variance + epsilon) + β, by rows. `statistics` is an output for backward,
/// one for each row; it may be NULL. y may be x.
ADDNORM_API addnorm_status addnorm_layer_norm(size_t rows, size_t features, const float* x,
                                              const float* gamma, const float* beta, double epsilon,
                                              float* y, addnorm_statistics_f32* statistics);
/// y = γ ⊙ x/√(mean of x² + epsilon), by rows.
ADDNORM_API addnorm_status addnorm_rms_norm(size_t rows, size_t features, const float* x,
                                            const float* gamma, double epsilon, float* y,
                                            addnorm_statistics_f32* statistics);
/// sum = x + branch, y = LayerNorm(sum). sum may be x or branch, or NULL to discard it. y may be x
/// or branch, but not sum.
ADDNORM_API addnorm_status addnorm_add_layer_norm(size_t rows, size_t features, const float* x,
                                                  const float* branch, const float* gamma,
                                                  const float* beta, double epsilon, float* sum,
                                                  float* y, addnorm_statistics_f32* statistics);
/// sum = x + branch, y = RMSNorm(sum), with the same rules as addnorm_add_layer_norm.
ADDNORM_API addnorm_status addnorm_add_rms_norm(size_t rows, size_t features, const float* x,
                                                const float* branch, const float* gamma,
                                                double epsilon, float* sum, float* y,
                                                addnorm_statistics_f32* statistics);
/// dx = d_residual + the gradient of s through LayerNorm, where s is the sum that forward
/// normalized. d_residual, the gradient of s along other paths, may be NULL. The gradients of γ and
/// β are added to d_gamma and d_beta; NULL skips them. The workspace holds
/// addnorm_add_norm_workspace() values; it may be NULL if both gradients are NULL. dx may be s, dy
/// or d_residual.
ADDNORM_API addnorm_status addnorm_add_layer_norm_backward(
    size_t rows, size_t features, const float* s, const addnorm_statistics_f32* statistics,
    const float* gamma, const float* dy, const float* d_residual, float* dx, float* d_gamma,
    float* d_beta, float* workspace);
/// The backward of RMSNorm, with the same rules as addnorm_add_layer_norm_backward.
ADDNORM_API addnorm_status addnorm_add_rms_norm_backward(size_t rows, size_t features,
                                                         const float* s,
                                                         const addnorm_statistics_f32* statistics,
                                                         const float* gamma, const float* dy,
                                                         const float* d_residual, float* dx,
                                                         float* d_gamma, float* workspace);

/// The step from one sublayer's output to the next one's input in a residual stream of several
/// lanes, for each row. It is a member of other structs, so it will not grow.
///
///     X′ = A·X + B·dropout(F)     A, n′ × n numbers, carries; B, n′ × q, writes
///     y  = norm(R·X′)             R, k × n′, reads
///
/// X has n lanes, the branch F has q and y has k; usually q = k = 1. A stream is a rows × lanes ×
/// features tensor: element (row r, lane i, feature c) is data[(r·lanes + i)·stride + c], where a
/// stride of 0 means `features`. A, B and R consist of values, row by row and without gaps. They
/// are the same for all rows or different for each. Dropout is that of addnorm_residual and needs a
/// branch of one lane.
typedef struct addnorm_lanes {
  size_t lanes;         ///< n
  size_t made_lanes;    ///< n′; 0: n
  size_t branch_lanes;  ///< q; 0: 1
  size_t read_lanes;    ///< k; 0: 1
  const void* x;        ///< rows × n × features, the residual stream
  size_t x_stride;
  const void* branch;  ///< rows × q × features; NULL, together with write: nothing is written
  size_t branch_stride;
  const void* carry;           ///< A; NULL: X′ = X + …, n′ = n
  size_t carry_rows;           ///< number of matrices A: 1 or `rows`; 0: 1
  const void* write;           ///< B
  size_t write_rows;           ///< number of matrices B, like carry_rows
  const void* read;            ///< R; NULL: nothing is read, and there is no y
  size_t read_rows;            ///< number of matrices R, like carry_rows
  double dropout_probability;  ///< at least 0 and below 1
  uint64_t dropout_seed;
  uint64_t dropout_offset;
} addnorm_lanes;

/// X′ = A·X + B·dropout(F) and y = norm(R·X′), in one pass over memory. At most 16 lanes can be
/// mixed. Without carry and branch, a read may have any number of lanes of x.
typedef struct addnorm_lanes_forward_args {
  size_t size;    ///< sizeof(addnorm_lanes_forward_args)
  int32_t dtype;  ///< addnorm_dtype
  size_t rows;
  size_t features;
  addnorm_lanes mix;
  /// Output X′, rows × n′ × features, of the stream's type; may be x. It may be NULL only if X′ =
  /// X, without carry and branch.
  void* sum;
  size_t sum_stride;
  const addnorm_norm_options* norm;  ///< LayerNorm or RMSNorm, for k = 1; NULL: none, y = R·X′
  const void* gamma;                 ///< of the norm, one for each feature; NULL: 1
  const void* beta;                  ///< of the norm, one for each feature; NULL: 0
  void* y;                           ///< rows × k × features, of the branch's type; may be branch
  size_t y_stride;
  /// The norm's output for backward: addnorm_statistics_f32 or _f64, one for each row. May be NULL.
  void* statistics;
  size_t threads;  ///< number of threads; 0: as many as OpenMP has
} addnorm_lanes_forward_args;

/// Writes X′ and y, and the statistics where their pointer is not NULL.
ADDNORM_API addnorm_status addnorm_lanes_forward(const addnorm_lanes_forward_args* args);

/// The gradients of addnorm_lanes_forward. Let dz be the gradient of R·X′, from the norm's backward
/// or dy itself, and G = d_sum + Rᵀ·dz:
///
///     dX = Aᵀ·G,   dF = mask ⊙ Bᵀ·G,   dA = G·Xᵀ,   dB = G·dropout(F)ᵀ,   dR = dz·X′ᵀ
///
/// The gradients of A, B and R have as many rows as A, B and R. A gradient with one row is the sum
/// over all rows. X′ is recomputed.
typedef struct addnorm_lanes_backward_args {
  size_t size;                  ///< sizeof(addnorm_lanes_backward_args)
  int32_t dtype;                ///< addnorm_dtype
  int32_t parameter_gradients;  ///< addnorm_gradient_mode of d_carry … d_beta
  size_t rows;
  size_t features;
  addnorm_lanes mix;                 ///< as in forward; x has its values before forward
  const addnorm_norm_options* norm;  ///< as in forward
  const void* gamma;                 ///< as in forward
  const void* statistics;            ///< of the norm, from forward
  const void* d_sum;  ///< gradient of X′ from later layers, of the stream's type; NULL: 0
  size_t d_sum_stride;
  const void* dy;  ///< gradient of y, if there is a read, of the branch's type
  size_t dy_stride;
  void* dx;  ///< rows × n × features, of the stream's type; may be d_sum
  size_t dx_stride;
  void* d_branch;  ///< rows × q × features, of the branch's type; may be dy; NULL: not wanted
  size_t d_branch_stride;
  void* d_carry;  ///< as many values as A; NULL: not wanted
  void* d_write;  ///< as many values as B; NULL: not wanted
  void* d_read;   ///< as many values as R; NULL: not wanted
  void* d_gamma;  ///< one for each feature; NULL: not wanted
  void* d_beta;   ///< one for each feature; NULL: not wanted
  /// For gradients that are summed over rows. Its contents need not survive between calls.
  void* workspace;
  size_t workspace_size;  ///< in values; at least addnorm_lanes_workspace()
  size_t threads;         ///< number of threads; 0: as many as OpenMP has
} addnorm_lanes_backward_args;

/// Writes dx, and the other gradients where their pointers are not NULL.
ADDNORM_API addnorm_status addnorm_lanes_backward(const addnorm_lanes_backward_args* args);

/// Returns the least number of values for the workspace of addnorm_lanes_backward. `lanes` is the
/// larger number of lanes of x and X′.
ADDNORM_API size_t addnorm_lanes_workspace(size_t rows, size_t lanes, size_t features);

/// The running statistics of BatchNorm and one batch's statistics.
typedef struct addnorm_running_statistics_args {
  size_t size;    ///< sizeof(addnorm_running_statistics_args)
  int32_t dtype;  ///< ADDNORM_F32 or ADDNORM_F64
  size_t channels;
  const addnorm_norm_options* norm;  ///< as in forward
  void* mean;                        ///< one for each channel, initially 0
  void* variance;                    ///< one for each channel, initially 1
  void* statistics;                  ///< one for each channel
  double momentum;                   ///< for update; 0.1 in PyTorch
  size_t count;                      ///< for update: the number of values of a channel, at least 2
} addnorm_running_statistics_args;

/// running = (1 − momentum)·running + momentum·(value of this batch), from the `statistics` that
/// forward wrote. The variance is the unbiased one whatever the options say, as in PyTorch.
ADDNORM_API addnorm_status
addnorm_update_running_statistics(const addnorm_running_statistics_args* args);

/// Writes `statistics` with which ADDNORM_BATCH_NORM normalizes each channel by the running mean
/// and variance (ADDNORM_STATISTICS_GIVEN).
ADDNORM_API addnorm_status
addnorm_running_to_norm_statistics(const addnorm_running_statistics_args* args);

#ifdef __cplusplus
}
#endif

// NOLINTEND(modernize-*, readability-identifier-naming)

#endif
