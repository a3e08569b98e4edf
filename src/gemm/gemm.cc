#include "gemm/gemm.h"

#ifdef ADDNORM_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

#include <Eigen/Core>

#include "base/require.h"

namespace addnorm {
namespace {

struct Sizes {
  std::size_t m, n, k;
};

template <typename T>
Sizes check(const Gemm<T>& g) {
  const bool ta = g.transpose_a == Transpose::kYes;
  const bool tb = g.transpose_b == Transpose::kYes;
  const Sizes sizes{ta ? g.a.cols : g.a.rows, tb ? g.b.rows : g.b.cols, ta ? g.a.rows : g.a.cols};
  const std::size_t k_of_b = tb ? g.b.cols : g.b.rows;
  require(sizes.k == k_of_b && g.c.rows == sizes.m && g.c.cols == sizes.n,
          "gemm: {} × {} times {} × {} does not give {} × {}", sizes.m, sizes.k, k_of_b, sizes.n,
          g.c.rows, g.c.cols);
  return sizes;
}

/// c = beta·c, where 0 also clears NaN.
template <typename T>
void scale(MatrixView<T> c, T beta) {
  for (std::size_t r = 0; r < c.rows; ++r) {
    for (T& value : c.row(r)) value = beta == 0 ? T{0} : beta * value;
  }
}

#ifdef ADDNORM_ONEDNN
/// Preferred to the template below.
void multiply(const Gemm<float>& g, const Sizes& s) {
  if (s.k == 0) return scale(g.c, g.beta);  // oneDNN leaves c alone
  auto dim = [](std::size_t v) { return static_cast<dnnl_dim_t>(v); };
  auto flag = [](Transpose t) { return t == Transpose::kYes ? 'T' : 'N'; };
  const dnnl_status_t status = dnnl_sgemm(
      flag(g.transpose_a), flag(g.transpose_b), dim(s.m), dim(s.n), dim(s.k), g.alpha, g.a.data,
      dim(g.a.stride), g.b.data, dim(g.b.stride), g.beta, g.c.data, dim(g.c.stride));
  require(status == dnnl_success, "gemm: oneDNN reports status {}", static_cast<int>(status));
}
#endif

template <typename T>
void multiply(const Gemm<T>& g, const Sizes&) {
  using Stored = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Strided = Eigen::OuterStride<>;
  auto map = [](MatrixView<const T> v) {
    return Eigen::Map<const Stored, 0, Strided>(v.data, static_cast<Eigen::Index>(v.rows),
                                                static_cast<Eigen::Index>(v.cols),
                                                Strided(static_cast<Eigen::Index>(v.stride)));
  };
  const auto a = map(g.a);
  const auto b = map(g.b);
  Eigen::Map<Stored, 0, Strided> c(g.c.data, static_cast<Eigen::Index>(g.c.rows),
                                   static_cast<Eigen::Index>(g.c.cols),
                                   Strided(static_cast<Eigen::Index>(g.c.stride)));
  scale(g.c, g.beta);
  const bool ta = g.transpose_a == Transpose::kYes;
  const bool tb = g.transpose_b == Transpose::kYes;
  if (ta && tb) {
    c.noalias() += g.alpha * a.transpose() * b.transpose();
  } else if (ta) {
    c.noalias() += g.alpha * a.transpose() * b;
  } else if (tb) {
    c.noalias() += g.alpha * a * b.transpose();
  } else {
    c.noalias() += g.alpha * a * b;
  }
}

}  // namespace

template <typename T>
void gemm(const Gemm<T>& args) {
  const Sizes sizes = check(args);
  if (sizes.m == 0 || sizes.n == 0) return;
  multiply(args, sizes);
}

template void gemm(const Gemm<float>&);
template void gemm(const Gemm<double>&);

}  // namespace addnorm
