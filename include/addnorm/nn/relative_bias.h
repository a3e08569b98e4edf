#pragma once

#include <cstddef>

#include "addnorm/api.h"

namespace addnorm {

/// A bias of attention's scores that depends on the distance between key and query (Raffel et al.
/// 2020, section 2.1): one learned number for each head and bucket of distances. Half of the
/// buckets are for keys after the query, half for keys before it. Half of each hold one distance;
/// the others grow logarithmically up to `max_distance`, and the last takes all longer distances.
struct RelativeBias {
  std::size_t buckets = 0;  ///< a multiple of 4; 0: no bias
  std::size_t max_distance = 128;

  bool active() const { return buckets > 0; }
  ADDNORM_API std::size_t bucket(std::size_t query, std::size_t key) const;
};

}  // namespace addnorm
