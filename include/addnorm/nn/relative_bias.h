#pragma once

#include <cstddef>

#include "addnorm/api.h"

namespace addnorm {

/// What is added to attention's scores by the distance of key and query (Raffel et al. 2020,
/// section 2.1): one learned number for each head and bucket of distances. Half of the buckets are
/// for keys behind the query, half for those before it; of each, half hold one distance, the others
/// grow logarithmically up to `max_distance`, and the last takes all beyond.
struct RelativeBias {
  std::size_t buckets = 0;  ///< a multiple of 4; 0: nothing is added
  std::size_t max_distance = 128;

  bool active() const { return buckets > 0; }
  ADDNORM_API std::size_t bucket(std::size_t query, std::size_t key) const;
};

}  // namespace addnorm
