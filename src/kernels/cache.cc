#include "kernels/cache.h"

#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

namespace addnorm {

bool exceeds_cache(std::size_t bytes) {
#ifdef _SC_LEVEL3_CACHE_SIZE
  static const long last_level = sysconf(_SC_LEVEL3_CACHE_SIZE);
#else
  constexpr long last_level = 0;
#endif
  constexpr std::size_t kUsual = std::size_t{32} << 20;
  return bytes >= (last_level > 0 ? static_cast<std::size_t>(last_level) : kUsual) / 2;
}

}  // namespace addnorm
