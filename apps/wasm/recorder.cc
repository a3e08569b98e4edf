#include "wasm/recorder.h"

#include <algorithm>
#include <cmath>

#include "base/require.h"

namespace addnorm {

const Recorder::Passage& Recorder::at(const std::vector<Site>& sites) const {
  for (const Site& site : sites) {
    for (const Passage& p : passages_) {
      if (p.site == site) return p;
    }
  }
  fail("the stack has no stream there");
}

void Recorder::copy(MatrixView<const float> from, Matrix<float>& to) {
  to.resize(from.rows, from.cols);
  for (std::size_t r = 0; r < from.rows; ++r)
    std::ranges::copy(from.row(r), to.view().row(r).begin());
}

Recorder::Passage& Recorder::passage(const Site& site) {
  for (Passage& p : passages_) {
    if (p.site == site) return p;
  }
  return passages_.emplace_back(Passage{.site = site});
}

double rms(std::span<const float> values) {
  double squares = 0;
  for (const float v : values) squares += double(v) * v;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

}  // namespace addnorm
