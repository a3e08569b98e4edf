#include "race/onednn_norm.h"

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "base/require.h"

// Written for oneDNN 2, whose γ and β are one array and whose primitives have descriptors; what
// changes with oneDNN 3 is all in this file.

namespace addnorm {
namespace {

using dnnl::layer_normalization_backward;
using dnnl::layer_normalization_forward;
using dnnl::memory;
using dnnl::prop_kind;

constexpr auto kFlags = dnnl::normalization_flags::use_scale_shift;

struct Step {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;
};

memory::data_type type_of(const std::string& dtype) {
  if (dtype == "bf16") return memory::data_type::bf16;
  return dtype == "f16" ? memory::data_type::f16 : memory::data_type::f32;
}

/// Makes a job's primitives over the race's memory; oneDNN keeps statistics in memory of its own.
class Maker {
 public:
  Maker(const RaceJob& job, const RaceArrays& arrays)
      : epsilon_(job.epsilon),
        rows_(static_cast<memory::dim>(job.shape.rows)),
        cols_(static_cast<memory::dim>(job.shape.cols)),
        matrix_({rows_, cols_}, type_of(job.dtype), memory::format_tag::ab),
        vectors_({2, cols_}, memory::data_type::f32, memory::format_tag::ab),
        column_({rows_}, memory::data_type::f32, memory::format_tag::a),
        scale_shift_(vectors_, engine_, arrays.scale_shift),
        d_scale_shift_(vectors_, engine_, arrays.d_scale_shift) {
    for (void* data : arrays.matrices) matrices_.emplace_back(matrix_, engine_, data);
  }

  dnnl::stream stream() const { return dnnl::stream(engine_); }
  memory matrix(std::size_t i) const { return matrices_[i]; }
  memory last() const { return matrices_.back(); }

  Step add(const memory& a, const memory& b, const memory& sum) const {
    const dnnl::binary::primitive_desc description(
        {dnnl::algorithm::binary_add, matrix_, matrix_, matrix_}, engine_);
    return {dnnl::binary(description),
            {{DNNL_ARG_SRC_0, a}, {DNNL_ARG_SRC_1, b}, {DNNL_ARG_DST, sum}}};
  }
  Step forward(const memory& s, const memory& y) const {
    return {layer_normalization_forward(forward_description()),
            {{DNNL_ARG_SRC, s},
             {DNNL_ARG_DST, y},
             {DNNL_ARG_MEAN, mean_},
             {DNNL_ARG_VARIANCE, variance_},
             {DNNL_ARG_SCALE_SHIFT, scale_shift_}}};
  }
  Step backward(const memory& s, const memory& dy, const memory& dx) const {
    const layer_normalization_backward::primitive_desc description(
        {prop_kind::backward, matrix_, matrix_, column_, epsilon_, kFlags}, engine_,
        forward_description());
    return {layer_normalization_backward(description),
            {{DNNL_ARG_SRC, s},
             {DNNL_ARG_DIFF_DST, dy},
             {DNNL_ARG_DIFF_SRC, dx},
             {DNNL_ARG_MEAN, mean_},
             {DNNL_ARG_VARIANCE, variance_},
             {DNNL_ARG_SCALE_SHIFT, scale_shift_},
             {DNNL_ARG_DIFF_SCALE_SHIFT, d_scale_shift_}}};
  }

 private:
  layer_normalization_forward::primitive_desc forward_description() const {
    return {{prop_kind::forward_training, matrix_, column_, epsilon_, kFlags}, engine_};
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  float epsilon_;
  memory::dim rows_, cols_;
  memory::desc matrix_, vectors_, column_;
  std::vector<memory> matrices_;
  memory scale_shift_, d_scale_shift_;
  memory mean_{column_, engine_}, variance_{column_, engine_};
};

void execute(const std::vector<Step>& steps, dnnl::stream& stream) {
  for (const Step& step : steps) step.primitive.execute(stream, step.arguments);
  stream.wait();
}

std::vector<Step> steps_of(const RaceKernel& kernel, const Maker& make) {
  if (kernel.backward) {
    std::vector<Step> steps{make.backward(make.matrix(0), make.matrix(1), make.last())};
    if (kernel.add) {
      steps.push_back(make.add(make.last(), make.matrix(2), make.matrix(kernel.dx())));
    }
    return steps;
  }
  if (!kernel.add) return {make.forward(make.matrix(0), make.last())};
  const memory s = make.matrix(kernel.sum());
  return {make.add(make.matrix(0), make.matrix(1), s), make.forward(s, make.last())};
}

}  // namespace

std::function<void()> onednn_norm(const RaceJob& job, const RaceArrays& arrays) {
  if (job.kernel.norm != NormKind::kLayer) return {};
  try {
    const Maker make(job, arrays);
    dnnl::stream stream = make.stream();
    std::vector<Step> steps = steps_of(job.kernel, make);
    if (job.kernel.backward) execute({make.forward(make.matrix(0), make.last())}, stream);
    return [steps = std::move(steps), stream]() mutable { execute(steps, stream); };
  } catch (const dnnl::error& error) {
    require(error.status == dnnl_unimplemented, "oneDNN: {}", error.message);
    return {};
  }
}

}  // namespace addnorm
