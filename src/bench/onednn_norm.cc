#include "bench/onednn_norm.h"

#include <unordered_map>

#include "base/require.h"
#include "gemm/onednn.h"

namespace addnorm::bench {
namespace {

using dnnl::memory;

struct Step {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;
};

memory::data_type type_of(const std::string& dtype) {
  if (dtype == "bf16") return memory::data_type::bf16;
  return dtype == "f16" ? memory::data_type::f16 : memory::data_type::f32;
}

/// Creates a job's primitives on the benchmark's memory; oneDNN allocates the statistics itself.
class Maker {
 public:
  Maker(const Job& job, const Arrays& arrays)
      : rows_(static_cast<memory::dim>(job.shape.rows)),
        cols_(static_cast<memory::dim>(job.shape.cols)),
        norm_{{{rows_, cols_}, type_of(job.dtype), memory::format_tag::ab},
              {{rows_}, memory::data_type::f32, memory::format_tag::a},
              job.epsilon},
        scale_(vector(arrays.scale_shift)),
        shift_(vector(arrays.scale_shift + cols_)),
        d_scale_(vector(arrays.d_scale_shift)),
        d_shift_(vector(arrays.d_scale_shift + cols_)) {
    for (void* data : arrays.matrices) matrices_.emplace_back(norm_.matrix, engine_, data);
  }

  dnnl::stream stream() const { return dnnl::stream(engine_); }
  memory matrix(std::size_t i) const { return matrices_[i]; }
  memory last() const { return matrices_.back(); }

  Step add(const memory& a, const memory& b, const memory& sum) const {
    return {dnnl::binary(onednn::describe<dnnl::binary>(engine_, {}, dnnl::algorithm::binary_add,
                                                        norm_.matrix, norm_.matrix, norm_.matrix)),
            {{DNNL_ARG_SRC_0, a}, {DNNL_ARG_SRC_1, b}, {DNNL_ARG_DST, sum}}};
  }
  Step forward(const memory& s, const memory& y) const {
    return {onednn::LayerNorm(onednn::describe(engine_, norm_)),
            {{DNNL_ARG_SRC, s},
             {DNNL_ARG_DST, y},
             {DNNL_ARG_MEAN, mean_},
             {DNNL_ARG_VARIANCE, variance_},
             {DNNL_ARG_SCALE, scale_},
             {DNNL_ARG_SHIFT, shift_}}};
  }
  Step backward(const memory& s, const memory& dy, const memory& dx) const {
    return {onednn::LayerNormBackward(onednn::describe_backward(engine_, norm_)),
            {{DNNL_ARG_SRC, s},
             {DNNL_ARG_DIFF_DST, dy},
             {DNNL_ARG_DIFF_SRC, dx},
             {DNNL_ARG_MEAN, mean_},
             {DNNL_ARG_VARIANCE, variance_},
             {DNNL_ARG_SCALE, scale_},
             {DNNL_ARG_SHIFT, shift_},
             {DNNL_ARG_DIFF_SCALE, d_scale_},
             {DNNL_ARG_DIFF_SHIFT, d_shift_}}};
  }

 private:
  memory vector(float* data) const {
    return {{{cols_}, memory::data_type::f32, memory::format_tag::a}, engine_, data};
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  memory::dim rows_, cols_;
  onednn::LayerNormProblem norm_;
  std::vector<memory> matrices_;
  memory scale_, shift_, d_scale_, d_shift_;
  memory mean_{norm_.statistics, engine_}, variance_{norm_.statistics, engine_};
};

void execute(const std::vector<Step>& steps, dnnl::stream& stream) {
  for (const Step& step : steps) step.primitive.execute(stream, step.arguments);
  stream.wait();
}

std::vector<Step> steps_of(const Kernel& kernel, const Maker& make) {
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

std::function<void()> onednn_norm(const Job& job, const Arrays& arrays) {
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

}  // namespace addnorm::bench
