#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "race/race_job.h"

namespace addnorm {

/// What PyTorch's allocator does with large tensors that are freed.
enum class TorchMemory {
  kKept,  ///< keeps their memory for the next call
  kAsIs,  ///< what the C library does unasked: gives it back, so each call takes page faults
};

/// PyTorch in a Python of its own, which does a job when it is told to and says how long that took,
/// or gives the results of a norm. The process ends with the object. What goes wrong is no error
/// but a problem(): then there are no times or results.
class TorchNorm {
 public:
  explicit TorchNorm(const std::string& python, TorchMemory memory = TorchMemory::kKept);
  ~TorchNorm();
  TorchNorm(const TorchNorm&) = delete;
  TorchNorm& operator=(const TorchNorm&) = delete;

  /// Prepares a job and does it once; false where PyTorch cannot do it.
  bool prepare(const RaceJob& job, int threads);
  /// Milliseconds of one call, by so many calls of the prepared job; infinity where it fails.
  double time(std::size_t calls);

  /// LayerNorm without γ and β, and its gradient: of `matrices`, which are x, dy, y and dx of so
  /// many rows, it writes the last two. False where it fails.
  bool layer_norm(std::span<float> matrices, std::size_t rows, float epsilon);

  /// The first thing that went wrong, in one line; empty: nothing.
  const std::string& problem() const { return problem_; }

 private:
  std::string ask(std::string_view question);
  std::string read_line();

  pid_t process_ = -1;
  int socket_ = -1;
  std::string problem_;
};

}  // namespace addnorm
