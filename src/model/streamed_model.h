#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm/nn/norm.h"
#include "addnorm/nn/stream_ends.h"
#include "model/output_head.h"
#include "model/recipe.h"
#include "model/weights.h"

namespace addnorm::model {

/// Runs a model of any size in float32. Its values stay in the files, and one layer at a time is in
/// memory. Backward loads each layer again and recomputes its forward from the stream that the
/// layer read. It always evaluates: there is no dropout, whatever the recipe trained with. There is
/// no padding, and all tokens have type 0.
class StreamedModel {
 public:
  /// Throws an Error if a tensor is missing or has another shape than the recipe requires.
  StreamedModel(Recipe recipe, Weights weights);

  /// Returns the model's output for `tokens`, batch × length ids: rows × recipe().outputs(). Valid
  /// until the next forward. `probe`, if given, must live until backward.
  MatrixView<const float> forward(std::span<const std::int32_t> tokens, std::size_t batch,
                                  Probe<float>* probe = nullptr);

  /// A parameter and the gradient of the loss. A matrix with a row for each token of the vocabulary
  /// comes in parts.
  struct Gradient {
    std::string_view name;
    std::size_t first_row;
    MatrixView<const float> value, gradient;
  };
  using Visitor = std::function<void(const Gradient&)>;
  /// Whether to visit matrices with a row for each token of the vocabulary, which may be most of a
  /// model.
  enum class Visit { kAll, kWithoutVocabulary };

  /// Call it after forward. The forward's probe observes the gradients on the way back from
  /// `d_output`, and the visitor, if given, those of the parameters. A parameter shared by layers
  /// is visited once for each layer.
  void backward(MatrixView<const float> d_output, const Visitor& visitor = {},
                Visit which = Visit::kAll);

  const Recipe& recipe() const { return recipe_; }
  const Weights& weights() const { return weights_; }

  /// Returns our names of all parameters that are run, and of the norms in layers that are not run.
  const std::vector<std::string>& parameter_names() const { return names_; }

 private:
  /// A copy of a stream's lanes for a later layer.
  struct SavedStream {
    std::vector<Matrix<float>> lanes, previous;
    bool has_lanes = false;

    void save(ResidualStream<float>& stream);
    ResidualStream<float> view() const;
  };
  struct Named {
    std::string name;
    std::size_t rows, cols;
  };
  std::vector<Named> outer_parameters() const;
  Block<float> make_block(std::size_t layer) const;
  Block<float> load_block(std::size_t layer) const;
  void check();
  void add_norms_not_run();
  void add_names(const ParameterList<float>& list);
  Pass<float> pass(Probe<float>* probe);
  void observe(SublayerKind sublayer, MatrixView<const float> values) const;
  void observe_gradient(SublayerKind sublayer, MatrixView<const float> gradient) const;
  void embed();
  void embed_backward(const Visitor& visitor, Visit which);
  void visit_token_rows(const std::string& name, MatrixView<const float> dx,
                        const Visitor& visitor);
  static void visit_all(const ParameterList<float>& parameters, const Visitor& visitor);
  Site outer_site(SublayerKind sublayer) const;
  /// The site of the read of several lanes at the end.
  Site end_site() const { return {recipe_.layers(), SublayerKind::kFinalNorm, Point::kX}; }

  Recipe recipe_;
  Weights weights_;
  std::vector<std::string> names_;

  std::vector<std::int32_t> tokens_;
  std::size_t batch_ = 1;
  Probe<float>* probe_ = nullptr;
  Scratch<float> scratch_;
  std::optional<Norm<float>> embedding_norm_, final_norm_;
  StreamEnds<float> ends_;
  std::optional<OutputHead> head_;
  Matrix<float> embedded_;            // input of the embedding's norm
  Matrix<float> x_;                   // the embedding
  std::vector<SavedStream> streams_;  // input of each layer, and the output of the last one
  MatrixView<const float> last_;      // the stream's end, after the lanes are read
  Matrix<float> y_, output_, d_output_, d_stream_;
};

}  // namespace addnorm::model
