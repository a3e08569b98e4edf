#pragma once

#include <oneapi/dnnl/dnnl.hpp>

/// The differences between oneDNN 2 and 3: version 2 makes primitive descriptors from operation
/// descriptors, and version 3 reads a product's factor at each call.
namespace addnorm::onednn {

using LayerNorm = dnnl::layer_normalization_forward;
using LayerNormBackward = dnnl::layer_normalization_backward;

/// A norm with γ and β as two arguments and matrices of one layout.
struct LayerNormProblem {
  dnnl::memory::desc matrix, statistics;
  float epsilon;
  dnnl::normalization_flags flags =
      dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
};

#if DNNL_VERSION_MAJOR < 3

template <typename Primitive, typename... Args>
typename Primitive::primitive_desc describe(const dnnl::engine& engine,
                                            const dnnl::primitive_attr& attributes,
                                            const Args&... args) {
  return {typename Primitive::desc(args...), attributes, engine};
}

inline LayerNorm::primitive_desc describe(const dnnl::engine& engine, const LayerNormProblem& p) {
  return {{dnnl::prop_kind::forward_training, p.matrix, p.statistics, p.epsilon, p.flags}, engine};
}

inline LayerNormBackward::primitive_desc describe_backward(const dnnl::engine& engine,
                                                           const LayerNormProblem& p) {
  return {{dnnl::prop_kind::backward, p.matrix, p.matrix, p.statistics, p.epsilon, p.flags},
          engine,
          describe(engine, p)};
}

/// Makes a product multiply by alpha, before it adds other terms.
inline void scale_product(dnnl::primitive_attr& attributes, float alpha) {
  attributes.set_output_scales(0, {alpha});
}
/// The argument for alpha; oneDNN 2 does not read it.
inline constexpr int kAlphaArgument = DNNL_ARG_ATTR_OUTPUT_SCALES;

#else

template <typename Primitive, typename... Args>
typename Primitive::primitive_desc describe(const dnnl::engine& engine,
                                            const dnnl::primitive_attr& attributes,
                                            const Args&... args) {
  return {engine, args..., attributes};
}

inline LayerNorm::primitive_desc describe(const dnnl::engine& engine, const LayerNormProblem& p) {
  return LayerNorm::primitive_desc(engine, dnnl::prop_kind::forward_training, p.matrix, p.matrix,
                                   p.statistics, p.epsilon, p.flags);
}

inline LayerNormBackward::primitive_desc describe_backward(const dnnl::engine& engine,
                                                           const LayerNormProblem& p) {
  return LayerNormBackward::primitive_desc(engine, dnnl::prop_kind::backward, p.matrix, p.matrix,
                                           p.matrix, p.statistics, p.epsilon, p.flags,
                                           describe(engine, p));
}

inline void scale_product(dnnl::primitive_attr& attributes, float /*alpha*/) {
  attributes.set_scales_mask(DNNL_ARG_SRC, 0);
}
inline constexpr int kAlphaArgument = DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC;

#endif

}  // namespace addnorm::onednn
