#include "addnorm/nn/embedding.h"

#include "base/parallel.h"
#include "base/require.h"
#include "kernels/check.h"

namespace addnorm {

template <typename T>
Embedding<T>::Embedding(std::size_t vocabulary, std::size_t context, std::size_t d_model)
    : token_(vocabulary, d_model, ParameterRole::kEmbedding),
      position_(context, d_model, ParameterRole::kEmbedding) {}

template <typename T>
void Embedding<T>::check(std::span<const std::int32_t> tokens, MatrixView<const Value> x,
                         const Pass<T>& pass) const {
  require(tokens.size() == pass.rows(), "embedding: there are {} tokens, must be {} × {}",
          tokens.size(), pass.batch, pass.length);
  require(pass.past + pass.length <= position_.value.rows(),
          "embedding: sequences of {} tokens are longer than the context of {}",
          pass.past + pass.length, position_.value.rows());
  for (const std::int32_t token : tokens) {
    require(token >= 0 && std::size_t(token) < token_.value.rows(),
            "embedding: token {} is outside the vocabulary of {}", token, token_.value.rows());
  }
  kernels::check_shape("embedding", "x", x, tokens.size(), token_.value.cols());
}

template <typename T>
void Embedding<T>::forward(std::span<const std::int32_t> tokens, MatrixView<Value> x,
                           const Pass<T>& pass) const {
  check(tokens, x, pass);
  parallel_for(x.rows, row_grain(x.cols), [&](std::size_t r) {
    const auto token = token_.value.view().row(static_cast<std::size_t>(tokens[r]));
    const auto position = position_.value.view().row(pass.past + r % pass.length);
    for (std::size_t i = 0; i < x.cols; ++i) x(r, i) = token[i] + position[i];
  });
}

template <typename T>
void Embedding<T>::backward(std::span<const std::int32_t> tokens, MatrixView<const Value> dx,
                            const Pass<T>& pass) {
  check(tokens, dx, pass);
  // In the order of the tokens, on one thread, because a token may occur several times.
  for (std::size_t r = 0; r < dx.rows; ++r) {
    const auto token = token_.gradient.view().row(static_cast<std::size_t>(tokens[r]));
    const auto position = position_.gradient.view().row(r % pass.length);
    for (std::size_t i = 0; i < dx.cols; ++i) {
      token[i] += dx(r, i);
      position[i] += dx(r, i);
    }
  }
}

template <typename T>
void Embedding<T>::list_parameters(const std::string& prefix, ParameterList<Value>& list) {
  list_parameter(list, prefix, "token", token_);
  list_parameter(list, prefix, "position", position_);
}

template class Embedding<float>;
template class Embedding<double>;
template class Embedding<BFloat16>;

}  // namespace addnorm
