#include "gemm/onednn_matmul.h"

#include <array>
#include <map>
#include <type_traits>

#include "base/require.h"
#include "gemm/onednn.h"

namespace addnorm::gemm {
namespace {

using dnnl::memory;

template <typename T>
constexpr memory::data_type kType =
    std::is_same_v<T, BFloat16> ? memory::data_type::bf16 : memory::data_type::f32;

/// The problem for which oneDNN prepares and keeps a primitive.
struct Problem {
  memory::dim m, n, k, stride_a, stride_b, stride_c;
  bool transpose_a, transpose_b, has_bias;
  memory::data_type in, out;
  float alpha, beta;

  // clang-tidy 14 mistakes the operand of the comparison for a pointer.
  auto operator<=>(const Problem&) const = default;  // NOLINT(modernize-use-nullptr)
};

template <typename In, typename Out>
Problem problem_of(const Gemm<In, Out>& g) {
  auto dim = [](std::size_t v) { return static_cast<memory::dim>(v); };
  return {dim(g.m()),
          dim(g.n()),
          dim(g.k()),
          dim(g.a.stride),
          dim(g.b.stride),
          dim(g.c.stride),
          g.transpose_a == Transpose::kYes,
          g.transpose_b == Transpose::kYes,
          !g.bias.empty(),
          kType<In>,
          kType<Out>,
          g.alpha,
          g.beta};
}

memory::desc describe(memory::dim rows, memory::dim cols, memory::data_type type,
                      memory::dim stride, bool transposed) {
  return {{rows, cols}, type, transposed ? memory::dims{1, stride} : memory::dims{stride, 1}};
}

/// A problem's primitive, with memory objects whose pointers are set at each call.
class Matmul {
 public:
  Matmul(const Problem& p, const dnnl::engine& engine)
      : a_(describe(p.m, p.k, p.in, p.stride_a, p.transpose_a), engine, nullptr),
        b_(describe(p.k, p.n, p.in, p.stride_b, p.transpose_b), engine, nullptr),
        c_(describe(p.m, p.n, p.out, p.stride_c, false), engine, nullptr),
        bias_({{1, p.n}, memory::data_type::f32, memory::format_tag::ab}, engine, nullptr),
        alpha_({{1}, memory::data_type::f32, memory::format_tag::a}, engine),
        primitive_(make(p, engine)),
        arguments_{{{DNNL_ARG_SRC, a_.get()},
                    {DNNL_ARG_WEIGHTS, b_.get()},
                    {DNNL_ARG_DST, c_.get()},
                    {DNNL_ARG_BIAS, bias_.get()}}},
        n_arguments_(p.has_bias || p.alpha != 1 ? 4 : 3) {
    if (p.alpha == 1) return;
    *static_cast<float*>(alpha_.get_data_handle()) = p.alpha;
    arguments_.back() = {onednn::kAlphaArgument, alpha_.get()};  // there is no bias then
  }

  template <typename In, typename Out>
  void operator()(const Gemm<In, Out>& g, const dnnl::stream& stream) {
    a_.set_data_handle(const_cast<In*>(g.a.data));
    b_.set_data_handle(const_cast<In*>(g.b.data));
    c_.set_data_handle(g.c.data);
    if (!g.bias.empty()) bias_.set_data_handle(const_cast<float*>(g.bias.data()));
    // The C interface is used because the C++ one allocates.
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive_.get(), stream.get(), n_arguments_, arguments_.data());
    dnnl::error::wrap_c_api(status, "the product cannot be computed");
  }

 private:
  dnnl::matmul make(const Problem& p, const dnnl::engine& engine) const {
    // a·b·alpha + bias + beta·c. With alpha among the post-operations, oneDNN would use its
    // reference product.
    dnnl::post_ops after;
    if (p.beta != 0) after.append_sum(p.beta);
    dnnl::primitive_attr attributes;
    if (p.alpha != 1) onednn::scale_product(attributes, p.alpha);
    attributes.set_post_ops(after);
    const auto described = [&](const auto&... matrices) {
      return onednn::describe<dnnl::matmul>(engine, attributes, matrices.get_desc()...);
    };
    return p.has_bias ? described(a_, b_, bias_, c_) : described(a_, b_, c_);
  }

  memory a_, b_, c_, bias_, alpha_;
  dnnl::matmul primitive_;
  std::array<dnnl_exec_arg_t, 4> arguments_;
  int n_arguments_;
};

/// The primitives of one thread: oneDNN gives each its own scratch memory.
class Matmuls {
 public:
  template <typename In, typename Out>
  void run(const Gemm<In, Out>& g) {
    const Problem problem = problem_of(g);
    auto found = known_.find(problem);
    if (found == known_.end()) {
      if (known_.size() == kMost) known_.clear();
      found = known_.try_emplace(problem, problem, engine_).first;
    }
    found->second(g, stream_);
  }

 private:
  static constexpr std::size_t kMost = 1024;

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Problem, Matmul> known_;
};

}  // namespace

template <typename In, typename Out>
void multiply_by_onednn(const Gemm<In, Out>& args) {
  static thread_local Matmuls matmuls;
  try {
    matmuls.run(args);
  } catch (const dnnl::error& error) {
    fail(fmt::format("gemm: oneDNN reports: {}", error.what()));
  }
}

bool onednn_has_bfloat16() {
  constexpr auto kLeast = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  static const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (isa & kLeast) == kLeast;
}

template void multiply_by_onednn(const Gemm<float>&);
template void multiply_by_onednn(const Gemm<BFloat16>&);
template void multiply_by_onednn(const Gemm<BFloat16, float>&);

}  // namespace addnorm::gemm
