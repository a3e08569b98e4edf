#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "bench/job.h"

namespace addnorm::bench {

/// A library that is measured in a Python of its own.
struct PythonRivalKind {
  std::string_view name;   ///< for options and JSON
  std::string_view title;  ///< for a table's head
  /// What the C library's allocator does with large results that are freed: keeps their memory for
  /// the next call, or, unasked, gives it back, so that each call takes page faults.
  bool keeps_memory = true;
};

/// PyTorch operator by operator with memory kept, the same as it is, torch.compile, and ONNX
/// Runtime, which has forward kernels alone.
std::span<const PythonRivalKind> python_rival_kinds();

/// A Python process that does a job on request and reports how long it took, or gives the
/// results of a norm. It ends with the object. What goes wrong is no error but a problem(): then
/// there are no times or results.
class PythonRival {
 public:
  explicit PythonRival(const std::string& python,
                       const PythonRivalKind& kind = python_rival_kinds().front());
  ~PythonRival();
  PythonRival(const PythonRival&) = delete;
  PythonRival& operator=(const PythonRival&) = delete;

  const PythonRivalKind& kind() const { return kind_; }

  /// Prepares a job and does it once; false where the library cannot do it.
  bool prepare(const Job& job, int threads);
  /// Milliseconds of one call, by so many calls of the prepared job; infinity where it fails.
  double time(std::size_t calls);

  /// PyTorch's LayerNorm without γ and β, and its gradient: of `matrices`, which are x, dy, y and
  /// dx of so many rows, it writes the last two. False where it fails.
  bool layer_norm(std::span<float> matrices, std::size_t rows, float epsilon);

  /// The first thing that went wrong, in one line; empty: nothing.
  const std::string& problem() const { return problem_; }

 private:
  std::string ask(std::string_view question);
  std::string read_line();

  PythonRivalKind kind_;
  pid_t process_ = -1;
  int socket_ = -1;
  std::string problem_;
};

}  // namespace addnorm::bench
