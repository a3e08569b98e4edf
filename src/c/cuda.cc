#include "addnorm/cuda.h"

#include <concepts>

#include "addnorm_cuda.h"
#include "c/add_norm.h"
#include "c/call.h"
#include "c/lanes.h"

namespace addnorm::c {
namespace {

/// Calls body<Stream, Branch>(args, memory) like call_with_storage(), for the types of the GPU.
template <typename Args, typename Body>
addnorm_status call_on_gpu(std::string_view where, const Args* given, const Body& body) noexcept {
  return call_with_storage(
      where, given, [&]<typename S, typename B>(const Args& args, const CallMemory& memory) {
        if constexpr (std::same_as<S, double>) {
          fail(
              fmt::format("{}: dtype is ADDNORM_F64, which the GPU kernels do not support", where));
        } else {
          body.template operator()<S, B>(args, memory);
        }
      });
}

/// Throws unless the kind of norm has statistics of rows, which the readers of structs need to
/// know.
void check_kind(std::string_view where, const NormShape& shape) {
  require(normalizes_rows(shape.options.kind), "{}: the norm is of kind {}, must be layer or rms",
          where, to_string(shape.options.kind));
}

cuda::StreamHandle handle_of(void* stream) {
  return static_cast<cuda::StreamHandle>(stream);
}

}  // namespace
}  // namespace addnorm::c

using namespace addnorm;
using namespace addnorm::c;

addnorm_status addnorm_cuda_supports(int32_t device, size_t features, size_t lanes) {
  return guarded([&] { cuda::check_support(device, features, lanes); });
}

const char* addnorm_cuda_last_error() {
  return addnorm_last_error();
}

const char* addnorm_cuda_version() {
  return ADDNORM_VERSION;
}

addnorm_status addnorm_cuda_add_norm_forward(const addnorm_add_norm_forward_args* args,
                                             void* stream) {
  return call_on_gpu("cuda::add_norm_forward", args,
                     [&]<typename S, typename B>(const auto& a, const CallMemory& memory) {
                       const NormShape shape(memory.where(), a);
                       check_kind(memory.where(), shape);
                       const ResidualAdd<S, B> add = read_residual_add<S, B>(a, memory);
                       cuda::add_norm_forward(shape.options,
                                              read_add_norm<S, B>(a, shape, add, a.rows, memory),
                                              handle_of(stream));
                     });
}

addnorm_status addnorm_cuda_add_norm_backward(const addnorm_add_norm_backward_args* args,
                                              void* stream) {
  return call_on_gpu("cuda::add_norm_backward", args,
                     [&]<typename S, typename B>(const auto& a, const CallMemory& memory) {
                       const NormShape shape(memory.where(), a);
                       check_kind(memory.where(), shape);
                       const auto s = memory.read<S>("s", a.s, a.rows, a.features, a.s_stride);
                       cuda::add_norm_backward(
                           shape.options, read_add_norm_backward<S, B>(a, shape, s, a.rows, memory),
                           handle_of(stream));
                     });
}

addnorm_status addnorm_cuda_add_norm_workspace(size_t rows, size_t features, size_t* values) {
  return guarded([&] {
    require(values != nullptr, "cuda::add_norm_workspace: values is NULL");
    *values = cuda::add_norm_workspace(rows, features);
  });
}

addnorm_status addnorm_cuda_lanes_forward(const addnorm_lanes_forward_args* args, void* stream) {
  return call_on_gpu("cuda::lanes_forward", args,
                     [&]<typename S, typename B>(const auto& a, const CallMemory& memory) {
                       cuda::lanes_forward(read_lanes_call<S, B>(a, memory), handle_of(stream));
                     });
}

addnorm_status addnorm_cuda_lanes_backward(const addnorm_lanes_backward_args* args, void* stream) {
  return call_on_gpu("cuda::lanes_backward", args,
                     [&]<typename S, typename B>(const auto& a, const CallMemory& memory) {
                       cuda::lanes_backward(read_lanes_call<S, B>(a, memory), handle_of(stream));
                     });
}

addnorm_status addnorm_cuda_lanes_workspace(size_t rows, size_t lanes, size_t features,
                                            size_t* values) {
  return guarded([&] {
    require(values != nullptr, "cuda::lanes_workspace: values is NULL");
    *values = cuda::lanes_workspace(rows, lanes, features);
  });
}
