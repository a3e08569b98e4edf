#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "addnorm/nn/embedding.h"
#include "addnorm/nn/stack.h"

namespace addnorm {

enum class Head { kTied, kUntied };
constexpr std::array<std::string_view, 2> names_of(Head) {
  return {"tied", "untied"};
}

/// The sizes, blocks and head of a decoder.
struct DecoderOptions {
  BlockOptions block = {};
  std::vector<BlockPlacement> placements = {};  ///< one for each layer: parse_placements()
  std::size_t vocabulary = 256;                 ///< bytes
  std::size_t context = 64;
  Head head = Head::kUntied;  ///< kTied: the logits use the token embedding
  FinalNorm final_norm = FinalNorm::kAsPlacement;
};

/// A decoder language model: tokens → embedding → stack with a causal mask → logits.
template <typename T>
class Decoder {
  static_assert(check_module<T>());

 public:
  using Value = Arithmetic<T>;

  ADDNORM_API explicit Decoder(const DecoderOptions& options);

  /// The options of one step; the decoder sets the rest of the pass.
  struct Step {
    std::size_t batch = 1;
    Mode mode = Mode::kTraining;
    std::uint64_t dropout_seed = 0;
    /// In evaluation, the number of tokens of each sequence that earlier steps fed. `tokens` follow
    /// them, and none of their values is recomputed. The parameters must be unchanged since then.
    std::size_t past = 0;
    std::size_t first_row = 0;                     ///< Pass::first_row
    Probe<Value>* probe = nullptr;                 ///< must live until backward
    const GradientsReady* on_gradients = nullptr;  ///< must live until backward
  };
  /// Returns the logits, (batch × length) × vocabulary, of `tokens`, batch × length ids. They stay
  /// valid until the next forward.
  ADDNORM_API MatrixView<Value> forward(std::span<const std::int32_t> tokens, const Step& step);
  /// Adds to every parameter's gradient; `d_logits` is the gradient of the loss with respect to the
  /// last forward's logits.
  ADDNORM_API void backward(MatrixView<const Value> d_logits);

  ADDNORM_API ParameterList<Value> parameters();
  const DecoderOptions& options() const { return options_; }
  Embedding<T>& embedding() { return embedding_; }
  Stack<T>& stack() { return stack_; }
  std::optional<Linear<T>>& head() { return head_; }  ///< absent if the head is tied

 private:
  void head_backward(MatrixView<const T> d_logits, MatrixView<T> d_y);

  DecoderOptions options_;
  Embedding<T> embedding_;
  Stack<T> stack_;
  std::optional<Linear<T>> head_;

  Scratch<T> scratch_;
  Pass<T> pass_;
  std::vector<std::int32_t> tokens_;
  Matrix<Value> x_, logits_, gradient_;
  Matrix<T> y_, d_y_, d_logits_;  // the last two only if gradient_ and d_logits have another type
};

}  // namespace addnorm
