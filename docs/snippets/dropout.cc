// Dropout of a branch by a seed: backward recomputes the mask of forward, which is not stored.

#include <algorithm>
#include <cstdio>
#include <vector>

#include "addnorm/norm.h"

using addnorm::MatrixView;

constexpr std::size_t rows = 100, features = 100;

int main() {
  std::vector<float> x(rows * features, 1), f(x), s(x), d_f(x);
  const std::vector<float> d_s(rows * features, 1);
  auto view = [](auto& values) { return MatrixView(values.data(), rows, features); };

  // docs: dropout
  const std::uint64_t step = 7, layer = 3;
  const addnorm::Dropout dropout{
      .probability = 0.1, .seed = step, .offset = layer * rows * features};
  const addnorm::ResidualAdd<float> add{.x = view(x), .branch = view(f), .dropout = dropout};
  addnorm::residual_add(add, view(s));  // s = x + dropout(f)

  addnorm::residual_add_backward<float>({.add = add, .d_sum = view(d_s), .d_branch = view(d_f)});
  // docs: end

  const auto kept = std::ranges::count_if(d_f, [](float v) { return v != 0; });
  bool same = true;
  for (std::size_t i = 0; i < s.size(); ++i) same = same && (s[i] != 1) == (d_f[i] != 0);
  std::printf("%td of %zu values kept, %s in backward\n", kept, s.size(),
              same ? "the same" : "others");
}
