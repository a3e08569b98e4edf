#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "addnorm/nn/parameter.h"
#include "io/tensor.h"
#include "model/tensor_names.h"

namespace addnorm::model {

/// The scales of a tensor's values, one for each block of rows × cols.
struct Scales {
  io::StoredTensor tensor;
  std::size_t rows, cols;
};

/// The place and the layout of a parameter's values.
struct ParameterSource {
  const io::StoredTensor* tensor = nullptr;  ///< null: the files do not have it
  const Scales* scales = nullptr;            ///< null: the values are not scaled
  TensorForm form = {};

  bool is_vector() const { return tensor->shape.size() == (form.stack > 0 ? 2 : 1); }
};

/// A model's tensors, from one file or several, found by our parameter names
/// ("layers.3.attention.query.weight"). The values stay in the files until they are read. Two
/// tensors X_blocks and X_scales of U8, as in gpt-oss, form one of MXFP4: numbers of 4 bits, of
/// which 32 consecutive ones share a power of 2 (Open Compute Project, Microscaling Formats 1.0).
/// X_scale_inv, as in DeepSeek-V3, scales blocks of 128 × 128 values of X.
class Weights {
 public:
  /// `path` is a .safetensors file, or a folder with model.safetensors, or with
  /// model.safetensors.index.json and the files that it names.
  Weights(const std::string& path, Naming naming);
  Weights(std::vector<io::TensorFile> files, Naming naming);
  Weights(Weights&&) = default;  // not copied: pointers refer to its own files

  ParameterSource find(const std::string& name) const;

  /// Throws an Error if the parameter has no tensor, or if its shape is not rows × cols.
  void check(const std::string& name, std::size_t rows, std::size_t cols) const;

  /// Reads the parameter's rows from `first_row` on into `values`, which is contiguous.
  void read(const std::string& name, std::size_t first_row, MatrixView<float> values) const;

  /// Reads the values of all these parameters, and checks their shapes.
  void load(const ParameterList<float>& parameters) const;

  /// Returns the names of the tensors that no listed parameter reads.
  std::vector<std::string> besides(const std::vector<std::string>& names) const;

  std::size_t values() const { return values_; }  ///< of all tensors together
  /// Returns the number of values that these parameters read, each tensor counted once.
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
  std::map<std::string, io::StoredTensor> tensors_;  // their bytes belong to the files
  std::map<std::string, Scales> scales_;             // by the name of the scaled tensor
  std::size_t values_ = 0;
};

}  // namespace addnorm::model
