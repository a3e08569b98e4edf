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

/// Runs a model of any size in float32: its values stay in the files, and one layer at a time is in
/// memory, in forward and again in backward, which computes the layer's forward once more from the
/// stream that it read. It evaluates: nothing is dropped, whatever the recipe trained with. There
/// is no padding, and all tokens are of type 0.
class StreamedModel {
 public:
  /// Throws Error where a tensor is missing or has not the shape that the recipe asks for.
  StreamedModel(Recipe recipe, Weights weights);

  /// What the model gives for `tokens`, batch × length ids: rows × recipe().outputs(). It stays
  /// valid until the next forward; `probe`, if there is one, must live until backward.
  MatrixView<const float> forward(std::span<const std::int32_t> tokens, std::size_t batch,
                                  Probe<float>* probe = nullptr);

  /// A parameter and the loss's gradient, or some rows of it where it has a row for each token of
  /// the vocabulary.
  struct Gradient {
    std::string_view name;
    std::size_t first_row;
    MatrixView<const float> value, gradient;
  };
  using Visitor = std::function<void(const Gradient&)>;
  /// Matrices with a row for each token of the vocabulary may be most of a model.
  enum class Visit { kAll, kWithoutVocabulary };

  /// After forward: its probe observes the gradients on the way back from `d_output`; the visitor
  /// if there is one, those of the parameters. What layers share comes once for each.
  void backward(MatrixView<const float> d_output, const Visitor& visitor = {},
                Visit which = Visit::kAll);

  const Recipe& recipe() const { return recipe_; }
  const Weights& weights() const { return weights_; }

  /// Our names of all parameters of what is run; of layers that are not, those of norms.
  const std::vector<std::string>& parameter_names() const { return names_; }

 private:
  /// A copy of a stream's lanes, for a layer that comes later.
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
  /// What is read of several lanes at the end.
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
  Matrix<float> embedded_;            // what the embedding's norm has taken
  Matrix<float> x_;                   // the embedding
  std::vector<SavedStream> streams_;  // what each layer reads, and what the last one leaves
  MatrixView<const float> last_;      // what leaves the stream at its end
  Matrix<float> y_, output_, d_output_, d_stream_;
};

}  // namespace addnorm::model
