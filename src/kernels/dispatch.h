#pragma once

/// Compiles a kernel for each instruction set and each storage type, and selects it at run time.

#include <hwy/targets.h>

#include <cstddef>
#include <tuple>
#include <type_traits>

#include "addnorm/float16.h"

namespace addnorm::kernels {

/// The number of rows that go through a kernel together.
inline constexpr std::size_t kRowGroup = 4;

/// The storage types of matrices: the residual stream, and branch and output. Double serves
/// references and tests. It is compiled once, for the instruction set that every machine has.
#define ADDNORM_FOR_STORAGES(use)                                                     \
  use(float, float) use(double, double) use(BFloat16, BFloat16) use(Float16, Float16) \
      use(float, BFloat16) use(float, Float16)
#define ADDNORM_STORAGE_TABLE(function)                                                  \
  {                                                                                      \
    &function<float, float>, &function<BFloat16, BFloat16>, &function<Float16, Float16>, \
        &function<float, BFloat16>, &function<float, Float16>                            \
  }
template <template <typename, typename> typename F>
using PerStorage = std::tuple<F<float, float>, F<BFloat16, BFloat16>, F<Float16, Float16>,
                              F<float, BFloat16>, F<float, Float16>>;

/// Defines table(), which returns function<S, B> for each pair of types.
#define ADDNORM_TABLE(table, Kernel, function)                                    \
  const PerStorage<Kernel>& table() {                                             \
    static constexpr PerStorage<Kernel> kTable = ADDNORM_STORAGE_TABLE(function); \
    return kTable;                                                                \
  }

/// Reads ADDNORM_CPU, once.
void choose_instruction_set();

}  // namespace addnorm::kernels

/// The version of `function`, a name given to HWY_EXPORT, for the instruction set in use.
#define ADDNORM_DISPATCH(function) \
  (::addnorm::kernels::choose_instruction_set(), HWY_DYNAMIC_DISPATCH(function))

/// Defines name<S, B>(), which returns the kernel of type Kernel<S, B>: from the table of the
/// instruction set in use, or function<double, double>.
#define ADDNORM_KERNEL_OF(name, Kernel, table, function)        \
  template <typename S, typename B>                             \
  Kernel<S, B> name() {                                         \
    if constexpr (std::is_same_v<S, double>) {                  \
      return &HWY_STATIC_DISPATCH(function)<double, double>;    \
    } else {                                                    \
      return std::get<Kernel<S, B>>(ADDNORM_DISPATCH(table)()); \
    }                                                           \
  }

/// Defines kernels<T>(), which returns a Kernels<T>: float_table() of the instruction set in use,
/// or table<double>().
#define ADDNORM_KERNELS_OF(Kernels, table, float_table) \
  template <typename T>                                 \
  const Kernels<T>& kernels() {                         \
    if constexpr (std::is_same_v<T, double>) {          \
      return HWY_STATIC_DISPATCH(table)<double>();      \
    } else {                                            \
      return ADDNORM_DISPATCH(float_table)();           \
    }                                                   \
  }
