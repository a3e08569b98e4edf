#pragma once

namespace addnorm::kernels {

/// How a kernel writes its results.
enum class Stores {
  kCached,
  kNonTemporal,  ///< bypass the caches; addresses must be multiples of 64 bytes
};

}  // namespace addnorm::kernels
