#pragma once

#include <cstddef>
#include <vector>

#include "addnorm/matrix.h"
#include "addnorm/nn/parameter.h"
#include "train/communicator.h"

namespace addnorm::train {

/// Adds up the gradients of all processes, bucket by bucket, while backward goes on. Process r gets
/// part r of a bucket from everybody, adds it up in order of rank, and gives the sum to everybody:
/// so the order is ours, and all end with the same bits. Allocates only when it is made.
template <typename T>
class GradientSum {
 public:
  /// A bucket is the parameters whose gradients travel together. They must outlive this.
  GradientSum(Communicator& world, std::vector<ParameterList<T>> buckets);

  /// Starts on a bucket whose gradients are complete here, and looks after those on their way;
  /// does not wait. Every process starts the same buckets in the same order.
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
  std::vector<std::size_t> started_;  // in this order each is added up, and arrives
  std::size_t added_up_ = 0;          // so many of those
  std::size_t arrived_ = 0;
};

}  // namespace addnorm::train
