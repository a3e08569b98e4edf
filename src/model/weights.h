#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "addnorm/nn/parameter.h"
#include "io/tensor.h"
#include "model/tensor_names.h"

namespace addnorm::model {

/// Where the values of a parameter stand: the tensor, and TensorNames' way of lying in it.
struct ParameterSource {
  const io::StoredTensor* tensor = nullptr;  ///< null: the files have none
  bool transposed = false;
  TensorPart part = {};
};

/// A model's tensors, of one file or of several, found by our names for parameters
/// ("layers.3.attention.query.weight"). The values stay in the files until they are read.
class Weights {
 public:
  /// `path`: a .safetensors file; or a folder with model.safetensors, or with
  /// model.safetensors.index.json and the files that it names.
  Weights(const std::string& path, Naming naming);
  Weights(std::vector<io::TensorFile> files, Naming naming);
  Weights(Weights&&) = default;  // never copied: its pointers are into its own files

  ParameterSource find(const std::string& name) const;

  /// Throws Error where there is no tensor for the parameter, or where its shape is not that of
  /// rows × cols.
  void check(const std::string& name, std::size_t rows, std::size_t cols) const;

  /// Fills `values`, which is contiguous, with the parameter's rows from `first_row` on.
  void read(const std::string& name, std::size_t first_row, MatrixView<float> values) const;

  /// Reads the values of all these parameters, and checks their shapes.
  void load(const ParameterList<float>& parameters) const;

  /// Names of the tensors that are no source of these parameters.
  std::vector<std::string> besides(const std::vector<std::string>& names) const;

  std::size_t values() const { return values_; }  ///< of all tensors together
  /// Of those that these parameters read, each once.
  std::size_t values_of(const std::vector<std::string>& names) const;

 private:
  static void read_columns(const ParameterSource& source, std::size_t first_row,
                           MatrixView<float> values);

  Naming naming_;
  std::vector<io::TensorFile> files_;
  std::map<std::string, const io::StoredTensor*> tensors_;
  std::size_t values_ = 0;
};

}  // namespace addnorm::model
