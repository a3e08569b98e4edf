#pragma once

#include <stdexcept>
#include <string>

#include "addnorm/api.h"

namespace addnorm {

/// The one exception type of the library: an argument, a file or an option that cannot be used.
/// what() is one line: where, which argument, what it was and what it must be.
class ADDNORM_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace addnorm
