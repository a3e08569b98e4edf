"""Sets of PyTorch's operators by purpose, with the names that record.recorder.operator_name() returns."""

LINEAR = frozenset("mm addmm bmm baddbmm matmul linear convolution mkldnn_convolution _grouped_mm "
                   "_convolution mv addmv module _scaled_mm mkldnn_linear grouped_mm grouped_mm_fallback".split())
BIASED = frozenset("addmm baddbmm addmv".split())  # their first argument is added to the product of the others
PRODUCT = frozenset("bmm baddbmm matmul mm".split())
FUSED_ATTENTION = "_scaled_dot_product"  # the prefix of their names
SOFTMAX = frozenset(["_softmax", "_safe_softmax"])
SHAPED_LIKE = frozenset("empty_like zeros_like ones_like full_like rand_like randn_like new_zeros "
                        "new_empty new_ones new_full bernoulli".split())  # their output depends only on a shape
RANDOM = frozenset("bernoulli rand rand_like uniform".split())
REORDERING = frozenset("roll flip constant_pad_nd".split())  # operators that move tokens

# Norms, and the operators from which norms are written.
NORMS = frozenset("native_layer_norm layer_norm rms_norm _fused_rms_norm addnorm::norm".split())
LENGTHS = frozenset(["norm", "linalg_vector_norm"])
REDUCTION = LENGTHS | frozenset("mean sum var std var_mean std_mean amax amin max min logsumexp median".split())
FACTORS = frozenset(["mul", "div"])
SCALING = FACTORS | frozenset("add sub rsub".split())
NORM_ARITHMETIC = SCALING | frozenset(
    "pow square abs neg rsqrt sqrt reciprocal clamp clamp_min hypot addcmul addcdiv".split())
ELEMENTWISE = NORM_ARITHMETIC | frozenset("sigmoid tanh exp relu gelu silu".split())
CASTS = frozenset("_to_copy to clone contiguous detach alias lift_fresh".split())

SUMS = frozenset("add sub lerp".split())
DROPOUT = frozenset(["native_dropout"])
LEADS_TO_SUM = FACTORS | DROPOUT | frozenset(["add", "sub"])  # operators between a term and its sum
USES = frozenset("add cat stack".split())  # operators that combine a stream with another value
# Operators between two sublayers whose output is still the stream.
KEEPS_STREAM = LEADS_TO_SUM | frozenset("clamp clamp_min clamp_max masked_fill nan_to_num where".split())
MODULATING = frozenset("mul add sub native_dropout addcmul".split())
# Operators that mix the stream with a branch, as in gates.
MIXING = SCALING | NORMS | frozenset(
    "addcmul lerp where scatter scatter_add index_add index_copy index_put masked_fill masked_scatter native_dropout "
    "cat stack slice sum split split_with_sizes addmm baddbmm".split())

# Operators that compute the coefficients of lanes.
DIVIDES = SOFTMAX | frozenset("div exp _log_softmax".split())
PARTS = frozenset("slice split split_with_sizes select narrow chunk".split())
