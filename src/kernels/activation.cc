#include "kernels/activation.h"

#include "base/parallel.h"
#include "kernels/check.h"
#include "kernels/dispatch.h"

namespace addnorm::kernels {

ADDNORM_DECLARE_KERNEL(template <typename T> void values(Activation, const MatrixView<const T>& x,
                                                         const MatrixView<T>& y);)
ADDNORM_DECLARE_KERNEL(template <typename T>
                       void gradients(Activation, const ActivateBackward<T>&);)

namespace {

constexpr std::size_t kGrain = 4096;  // the smallest work of one thread, in values

}  // namespace

template <typename T>
void activate(Activation activation, MatrixView<const T> x, MatrixView<T> y) {
  check_shape("activate", "y", y, x.rows, x.cols);
  const auto kernel = ADDNORM_KERNEL(T, values<T>);
  parallel_ranges(x.rows, 1 + kGrain / (x.cols + 1), 1, [&](std::size_t begin, std::size_t end) {
    auto part = [&](const auto& m) { return m.block(begin, 0, end - begin, x.cols); };
    kernel(activation, part(x), part(y));
  });
}

template <typename T>
void activate_backward(Activation activation, const ActivateBackward<T>& args) {
  const auto& [x, dy, dx] = args;
  check_shape("activate_backward", "dy", dy, x.rows, x.cols);
  check_shape("activate_backward", "dx", dx, x.rows, x.cols);
  const auto kernel = ADDNORM_KERNEL(T, gradients<T>);
  parallel_ranges(x.rows, 1 + kGrain / (x.cols + 1), 1, [&](std::size_t begin, std::size_t end) {
    auto part = [&](const auto& m) { return m.block(begin, 0, end - begin, m.cols); };
    kernel(activation, {.x = part(args.x), .dy = part(args.dy), .dx = part(args.dx)});
  });
}

template void activate(Activation, MatrixView<const float>, MatrixView<float>);
template void activate(Activation, MatrixView<const double>, MatrixView<double>);
template void activate(Activation, MatrixView<const BFloat16>, MatrixView<BFloat16>);
template void activate_backward(Activation, const ActivateBackward<float>&);
template void activate_backward(Activation, const ActivateBackward<double>&);
template void activate_backward(Activation, const ActivateBackward<BFloat16>&);

}  // namespace addnorm::kernels
