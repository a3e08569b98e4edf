#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "addnorm/nn/parameter.h"
#include "addnorm/nn/pass.h"

namespace addnorm {

/// x = token[t] + position[i] for the token t at position i of its sequence.
template <typename T>
class Embedding {
  static_assert(check_module<T>());

 public:
  using Value = Arithmetic<T>;

  ADDNORM_API Embedding(std::size_t vocabulary, std::size_t context, std::size_t d_model);

  /// `tokens` are batch × length ids below the vocabulary; past + length is at most the context.
  ADDNORM_API void forward(std::span<const std::int32_t> tokens, MatrixView<Value> x,
                           const Pass<T>& pass) const;
  /// Adds to the gradients of the embeddings.
  ADDNORM_API void backward(std::span<const std::int32_t> tokens, MatrixView<const Value> dx,
                            const Pass<T>& pass);

  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<Value>& list);
  Parameter<Value>& token() { return token_; }
  Parameter<Value>& position() { return position_; }

 private:
  void check(std::span<const std::int32_t> tokens, MatrixView<const Value> x,
             const Pass<T>& pass) const;

  Parameter<Value> token_;
  Parameter<Value> position_;
};

}  // namespace addnorm
