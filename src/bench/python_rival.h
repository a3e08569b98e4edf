#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "bench/job.h"

namespace addnorm::bench {

/// A library that is measured in its own Python process.
struct PythonRivalKind {
  std::string_view name;   ///< for options and JSON
  std::string_view title;  ///< for a table's heading
  /// Whether the C library's allocator keeps the memory of large freed results for the next call.
  /// By default it returns the memory, so that each call takes page faults.
  bool keeps_memory = true;
};

/// Returns the rivals: PyTorch with memory kept, PyTorch with its defaults, torch.compile, and ONNX
/// Runtime, which has only forward kernels.
std::span<const PythonRivalKind> python_rival_kinds();

/// A Python process that runs a job on request and reports its time, or the results of a norm. It
/// ends with the object. A failure is no error but a problem(): then there are no times or results.
class PythonRival {
 public:
  explicit PythonRival(const std::string& python,
                       const PythonRivalKind& kind = python_rival_kinds().front());
  ~PythonRival();
  PythonRival(const PythonRival&) = delete;
  PythonRival& operator=(const PythonRival&) = delete;

  const PythonRivalKind& kind() const { return kind_; }

  /// Prepares a job and runs it once; returns false if the library does not support it.
  bool prepare(const Job& job, int threads);
  /// Returns the milliseconds of one call, averaged over `calls` calls of the prepared job;
  /// infinity if it fails.
  double time(std::size_t calls);

  /// PyTorch's LayerNorm without γ and β, and its gradient. `matrices` holds x, dy, y and dx, of
  /// `rows` rows each; it writes y and dx. Returns false if it fails.
  bool layer_norm(std::span<float> matrices, std::size_t rows, float epsilon);

  /// Returns the first failure, in one line; empty if there is none.
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
