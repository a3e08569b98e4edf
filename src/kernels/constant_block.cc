#include "kernels/constant_block.h"

#include <array>

#include "addnorm/float16.h"

namespace addnorm::kernels {
namespace {

template <typename S>
constexpr std::array<S, kBlock> block_of(S value) {
  std::array<S, kBlock> block;
  block.fill(value);
  return block;
}

}  // namespace

template <typename S>
const S* zeros() {
  static constexpr auto kValues = block_of(S(0.0F));
  return kValues.data();
}
template <typename S>
const S* minus_zeros() {
  static constexpr auto kValues = block_of(S(-0.0F));
  return kValues.data();
}

#define ADDNORM_INSTANTIATE(S)  \
  template const S* zeros<S>(); \
  template const S* minus_zeros<S>();
ADDNORM_INSTANTIATE(float)
ADDNORM_INSTANTIATE(double)
ADDNORM_INSTANTIATE(BFloat16)
ADDNORM_INSTANTIATE(Float16)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm::kernels
