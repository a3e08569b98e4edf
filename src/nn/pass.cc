#include "addnorm/nn/pass.h"

#include "base/require.h"

namespace addnorm {

template <typename T>
Scratch<T>& Pass<T>::memory() const {
  require(scratch != nullptr, "pass: scratch is absent, must point to a Scratch");
  return *scratch;
}

template Scratch<float>& Pass<float>::memory() const;
template Scratch<double>& Pass<double>::memory() const;
template Scratch<BFloat16>& Pass<BFloat16>::memory() const;

}  // namespace addnorm
