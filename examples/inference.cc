// A small pre-norm decoder generates tokens. A sublayer does not add its output to the stream: it
// returns it as a branch. The call of the next norm computes both s = x + f and norm(s), in one
// pass over memory. The program needs only the public headers.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include "addnorm/norm.h"

using Vector = std::vector<float>;

constexpr std::size_t d_model = 64;
constexpr std::size_t d_ff = 256;
constexpr std::size_t n_layers = 4;
constexpr std::size_t n_tokens = 32;  // the size of the vocabulary
constexpr std::size_t length = 16;

std::mt19937 generator(0);

/// y = W·x. The initial weights are uniform in ±1/√inputs, as in PyTorch.
struct Linear {
  std::size_t inputs, outputs;
  Vector weight = Vector(inputs * outputs);

  Linear(std::size_t in, std::size_t out) : inputs(in), outputs(out) {
    const float bound = 1 / std::sqrt(static_cast<float>(in));
    std::uniform_real_distribution<float> uniform(-bound, bound);
    for (float& w : weight) w = uniform(generator);
  }
  Vector operator()(const Vector& x) const {
    Vector y(outputs);
    for (std::size_t i = 0; i < outputs; ++i) {
      y[i] = std::inner_product(x.begin(), x.end(), &weight[i * inputs], 0.0F);
    }
    return y;
  }
};

/// Attention with one head and a cache of keys and values.
struct Attention {
  Linear query{d_model, d_model}, key{d_model, d_model}, value{d_model, d_model},
      output{d_model, d_model};
  std::vector<Vector> keys, values;

  Vector operator()(const Vector& h) {
    keys.push_back(key(h));
    values.push_back(value(h));
    const Vector q = query(h);
    float sum = 0;
    Vector mixed(d_model, 0);
    for (std::size_t t = 0; t < keys.size(); ++t) {
      const float score = std::inner_product(q.begin(), q.end(), keys[t].begin(), 0.0F);
      const float weight = std::exp(score / std::sqrt(static_cast<float>(d_model)));
      sum += weight;
      for (std::size_t i = 0; i < d_model; ++i) mixed[i] += weight * values[t][i];
    }
    for (float& m : mixed) m /= sum;
    return output(mixed);
  }
};

struct FeedForward {
  Linear up{d_model, d_ff}, down{d_ff, d_model};

  Vector operator()(const Vector& h) const {
    Vector inner = up(h);
    for (float& v : inner) v = std::max(v, 0.0F);
    return down(inner);
  }
};

struct Layer {
  Vector attention_gamma = Vector(d_model, 1), feed_forward_gamma = Vector(d_model, 1);
  Attention attention;
  FeedForward feed_forward;
};

// docs: add + norm
/// Computes stream += branch and returns RMSNorm(stream).
Vector add_norm(Vector& stream, const Vector& branch, const Vector& gamma) {
  Vector h(d_model);
  const addnorm::MatrixView<float> s(stream.data(), 1, d_model);
  addnorm::add_norm_forward<float>({.kind = addnorm::NormKind::kRms, .epsilon = 1e-6},
                                   {.add = {.x = s, .branch = {branch.data(), 1, d_model}},
                                    .sum = s,
                                    .gamma = gamma,
                                    .y = {h.data(), 1, d_model}});
  return h;
}
// docs: end

int main() {
  std::vector<Layer> layers(n_layers);
  const Linear embedding(d_model, n_tokens);  // one row for each token; also the output projection
  const Vector final_gamma(d_model, 1);
  Vector h;
  std::size_t token = 0;
  std::printf("tokens ");
  for (std::size_t t = 0; t < length; ++t) {
    Vector stream(d_model, 0);
    const auto row = embedding.weight.begin() + static_cast<std::ptrdiff_t>(token * d_model);
    // docs: layers
    Vector branch(row, row + d_model);  // the embedding is the first branch
    for (Layer& layer : layers) {
      branch = layer.attention(add_norm(stream, branch, layer.attention_gamma));
      branch = layer.feed_forward(add_norm(stream, branch, layer.feed_forward_gamma));
    }
    h = add_norm(stream, branch, final_gamma);
    // docs: end
    const Vector logits = embedding(h);
    token = static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
    std::printf(" %zu", token);
  }
  const float power = std::inner_product(h.begin(), h.end(), h.begin(), 0.0F) / d_model;
  std::printf("\nroot mean square of the last token's features %.3f\n", std::sqrt(power));
}
