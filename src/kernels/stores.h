#pragma once

namespace addnorm::kernels {

/// How a kernel writes its results.
enum class Stores {
  kCached,
  kNonTemporal,  ///< without bringing lines into the caches; addresses must be multiples of 64
                 ///< bytes
};

}  // namespace addnorm::kernels
