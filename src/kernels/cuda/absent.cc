// The functions of addnorm/cuda.h in a build without CUDA.

#include "addnorm/cuda.h"
#include "base/require.h"
#include "kernels/cuda/storages.h"

namespace addnorm::cuda {
namespace {

[[noreturn]] void fail_without_cuda(const char* where) {
  fail(fmt::format("{}: this build has no CUDA; CMake's -DADDNORM_CUDA=ON adds it", where));
}

}  // namespace

bool available() {
  return false;
}

void check_support(int, std::size_t, std::size_t) {
  fail_without_cuda("cuda::check_support");
}

template <typename S, typename B>
void add_norm_forward(const NormOptions&, const AddNormForward<S, B>&, StreamHandle) {
  fail_without_cuda("cuda::add_norm_forward");
}
template <typename S, typename B>
void add_norm_backward(const NormOptions&, const AddNormBackward<S, B>&, StreamHandle) {
  fail_without_cuda("cuda::add_norm_backward");
}
template <typename S, typename B>
void lanes_forward(const LanesForward<S, B>&, StreamHandle) {
  fail_without_cuda("cuda::lanes_forward");
}
template <typename S, typename B>
void lanes_backward(const LanesBackward<S, B>&, StreamHandle) {
  fail_without_cuda("cuda::lanes_backward");
}

std::size_t add_norm_workspace(std::size_t, std::size_t) {
  fail_without_cuda("cuda::add_norm_workspace");
}
std::size_t lanes_workspace(std::size_t, std::size_t, std::size_t) {
  fail_without_cuda("cuda::lanes_workspace");
}

#define ADDNORM_INSTANTIATE(S, B) ADDNORM_INSTANTIATE_CUDA(S, B)
ADDNORM_FOR_CUDA_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm::cuda
