#pragma once

#include <stdexcept>
#include <string>

#include "addnorm/api.h"

namespace addnorm {

/// The library's only exception type, thrown for an invalid argument, file or option. what() is one
/// line: where, which argument, its value and what is allowed.
class ADDNORM_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace addnorm
