/// Measures a training step for train_vs_torch.py. For each line on stdin it makes one. It prints
/// the step's milliseconds, the rate of a product of the feed-forward's size in TFLOP/s, and the
/// milliseconds of each Cost.

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "addnorm/nn/initialize.h"
#include "base/time_account.h"
#include "gemm/gemm.h"
#include "stopwatch.h"
#include "train/trainer.h"

namespace addnorm {
namespace {

std::string some_text() {
  TorchGenerator generator(0);
  std::string text(1 << 20, ' ');
  for (char& c : text) c = static_cast<char>(generator.random());
  return text;
}

struct Sizes {
  std::size_t layers, batch, length, d_model, n_heads;
};

template <typename T>
void serve(const Sizes& s) {
  Decoder<T> decoder({.block = {.d_model = s.d_model, .n_heads = s.n_heads, .d_ff = 4 * s.d_model},
                      .placements = parse_placements("pre", s.layers),
                      .context = s.length});
  TorchGenerator generator(0);
  initialize(decoder, Initialization::kGpt2, generator);
  const train::ByteText text(some_text(), s.length);
  train::Trainer<T> trainer(decoder, text, {.batch = s.batch, .clip = 1});

  const std::size_t rows = s.batch * s.length;
  Matrix<T> x(rows, s.d_model), w(4 * s.d_model, s.d_model), y(rows, 4 * s.d_model);
  const double operations = 2.0 * static_cast<double>(rows * w.rows() * w.cols());
  const auto product = [&] {
    gemm::gemm<T>({.a = x, .b = w, .transpose_b = gemm::Transpose::kYes, .c = y});
  };

  for (std::string line; std::getline(std::cin, line);) {
    const TimeAccount account;
    const double step = milliseconds([&] { trainer.step(); });
    auto costs = account.seconds();
    for (double& cost : costs) cost *= 1e3;
    product();
    fmt::print("{:.3f} {:.4f} {:.3f}\n", step, 1e-9 * operations / milliseconds(product),
               fmt::join(costs, " "));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace addnorm

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() != 6 || (words[0] != "f32" && words[0] != "bf16")) {
    fmt::print(stderr, "usage: train_bench f32|bf16 LAYERS BATCH LENGTH D_MODEL HEADS\n");
    return 2;
  }
  const addnorm::Sizes sizes{std::stoul(words[1]), std::stoul(words[2]), std::stoul(words[3]),
                             std::stoul(words[4]), std::stoul(words[5])};
  if (words[0] == "f32") {
    addnorm::serve<float>(sizes);
  } else {
    addnorm::serve<addnorm::BFloat16>(sizes);
  }
}
