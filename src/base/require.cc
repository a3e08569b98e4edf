#include "base/require.h"

namespace addnorm {

void fail(const std::string& message) {
  throw Error(message);
}

}  // namespace addnorm
