#pragma once

#include <cstddef>
#include <vector>

#include "addnorm/matrix.h"
#include "addnorm/nn/parameter.h"
#include "train/communicator.h"

namespace addnorm::train {

/// Adds up the gradients of all processes, bucket by bucket, during backward. Process r receives
/// part r of a bucket from every process, adds it up in order of rank, and sends the sum to every
/// process. So all processes have the same bits. Only the constructor allocates.
template <typename T>
class GradientSum {
 public:
  /// A bucket is a set of parameters whose gradients are sent together. They must outlive this.
  GradientSum(Communicator& world, std::vector<ParameterList<T>> buckets);

  /// Starts a bucket whose gradients are complete here, and advances those in progress; does not
  /// wait. Every process starts the same buckets in the same order.
  void start(std::size_t bucket);
  /// Waits until the gradients of all started buckets are the sums.
  void finish();

 private:
  struct Bucket {
    ParameterList<T> parameters;
    Matrix<T> mine, received;  // a row for each process
  };

  template <typename Ready>
  void advance(const Ready& is_ready);
  void add_up(Bucket& bucket);

  Communicator& world_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> started_;  // in this order buckets are added up and sent
  std::size_t added_up_ = 0;          // number of buckets added up so far
  std::size_t arrived_ = 0;
};

}  // namespace addnorm::train
