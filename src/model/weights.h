#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "addnorm/nn/parameter.h"
#include "io/tensor.h"
#include "model/tensor_names.h"

namespace addnorm::model {

/// Scales of a tensor's values, one for each block of rows × cols.
struct Scales {
  io::StoredTensor tensor;
  std::size_t rows, cols;
};

/// Where the values of a parameter stand, and how.
struct ParameterSource {
  const io::StoredTensor* tensor = nullptr;  ///< null: the files have none
  const Scales* scales = nullptr;            ///< null: the values are as they are stored
  TensorForm form = {};

  bool is_vector() const { return tensor->shape.size() == (form.stack > 0 ? 2 : 1); }
};

/// A model's tensors, of one file or of several, found by our names for parameters
/// ("layers.3.attention.query.weight"). The values stay in the files until they are read. Two
/// tensors X_blocks and X_scales of U8, as gpt-oss has them, are one of MXFP4: numbers of 4 bits,
/// of which 32 in a row share a power of 2 (Open Compute Project, Microscaling Formats 1.0).
/// X_scale_inv, as DeepSeek-V3 has it, scales 128 × 128 values of X each.
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
  void join_mxfp4();
  void join_block_scales();
  static void read_values(const ParameterSource& source, std::size_t first,
                          std::span<float> values);
  static void read_columns(const ParameterSource& source, std::size_t first_row,
                           MatrixView<float> values);

  Naming naming_;
  std::vector<io::TensorFile> files_;
  std::map<std::string, io::StoredTensor> tensors_;  // their bytes are the files'
  std::map<std::string, Scales> scales_;             // by the name of what they scale
  std::size_t values_ = 0;
};

}  // namespace addnorm::model
