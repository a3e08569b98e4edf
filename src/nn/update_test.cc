#include "addnorm/nn/update.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "addnorm/torch_generator.h"
#include "support/compare.h"
#include "support/gradient_check.h"

namespace addnorm::update_test {
namespace {

constexpr std::size_t kFeatures = 5;

/// Rows whose squares are 0, far below ε = 1e-6, near it, and far above it.
constexpr double kSizes[] = {0, 1e-5, 1e-3, 1};
constexpr std::size_t kRows = std::size(kSizes);

struct Case {
  Matrix<double> f{kRows, kFeatures}, z{kRows, kFeatures}, weights{kRows, kFeatures};
  UpdateStep<double> update{find_placement("orthogonal"), {}, kFeatures};
  Pass<double> pass{.length = kRows};

  Case() {
    TorchGenerator generator(3);
    for (Matrix<double>* matrix : {&f, &z, &weights}) generator.fill_normal(matrix->flat());
    for (std::size_t r = 0; r < kRows; ++r) {
      for (double& value : z.view().row(r)) value *= kSizes[r];
    }
  }
};

/// u = f − ⟨f, z⟩/(⟨z, z⟩ + 1e-6)·z, as in the code of Oh et al.
TEST(Update, OrthogonalAddsEpsilonToTheSquareOfTheStream) {
  Case c;
  std::vector<double> expected;
  for (std::size_t r = 0; r < kRows; ++r) {
    double inner = 0, square = 0;
    for (std::size_t k = 0; k < kFeatures; ++k) {
      inner += c.f(r, k) * c.z(r, k);
      square += c.z(r, k) * c.z(r, k);
    }
    for (std::size_t k = 0; k < kFeatures; ++k) {
      expected.push_back(c.f(r, k) - inner / (square + 1e-6) * c.z(r, k));
    }
  }
  const MatrixView<const double> u = c.update.forward(c.f, c.z, c.pass);
  EXPECT_LE(testing::max_error(std::span(u.data, u.size()), expected), 1e-15);
}

TEST(Update, OrthogonalHasTheGradientsOfItsFormulaForRowsOfAnySize) {
  for (std::size_t r = 0; r < kRows; ++r) {
    Case c;
    const auto loss = [&] {
      const MatrixView<const double> u = c.update.forward(c.f, c.z, c.pass);
      double sum = 0;
      for (std::size_t k = 0; k < kFeatures; ++k) sum += c.weights(r, k) * u(r, k);
      return sum;
    };
    loss();
    Matrix<double> df(kRows, kFeatures), dz(kRows, kFeatures);
    c.update.backward(c.f, c.z, c.weights, df, dz, c.pass);
    const double step = kSizes[r] == 1 ? 1e-4 : 1e-6;  // small compared with √ε
    EXPECT_LE(testing::gradient_error(c.f.view().row(r), df.view().row(r), loss, 64, step), 1e-7)
        << r;
    EXPECT_LE(testing::gradient_error(c.z.view().row(r), dz.view().row(r), loss, 64, step), 1e-7)
        << r;
  }
}

constexpr std::size_t kSequences = 2000;
constexpr std::size_t kLength = 3;

/// The factors by which the last of four layers multiplies each row; its branch survives with
/// probability 0.9.
std::vector<double> survival_factors(std::size_t first_row, std::size_t sequences,
                                     bool is_backward = false) {
  const Place place{.depth = {4, 4}};
  UpdateStep<double> update(find_placement("stochastic-depth"), place, 1);
  const Pass<double> pass{
      .batch = sequences, .length = kLength, .dropout_seed = 5, .first_row = first_row};
  Matrix<double> f(sequences * kLength, 1), dz(sequences * kLength, 1);
  f.fill(1);
  if (is_backward) {
    Matrix<double> df(sequences * kLength, 1);
    update.backward(f, f, f, df, dz, pass);  // du is 1, as f is
    return {df.flat().begin(), df.flat().end()};
  }
  const MatrixView<const double> u = update.forward(f, f, pass);
  return {u.data, u.data + u.size()};
}

TEST(Update, StochasticDepthDropsWholeSequencesWithOneMinusTheirSurvival) {
  const std::vector<double> factors = survival_factors(0, kSequences);
  std::size_t dropped = 0;
  for (std::size_t s = 0; s < kSequences; ++s) {
    const double factor = factors[s * kLength];
    dropped += factor == 0;
    EXPECT_DOUBLE_EQ(factor, factor == 0 ? 0 : 1 / 0.9);
    for (std::size_t t = 1; t < kLength; ++t) EXPECT_EQ(factors[s * kLength + t], factor);
  }
  EXPECT_NEAR(static_cast<double>(dropped) / kSequences, 0.1, 0.03);  // 4 standard deviations
  EXPECT_EQ(survival_factors(0, kSequences, true), factors) << "the gradient passes the same rows";
}

TEST(Update, StochasticDepthDropsTheSameSequencesInAPartOfABatch) {
  const std::vector<double> whole = survival_factors(0, kSequences);
  constexpr std::size_t kFirst = 40 * kLength;
  const std::vector<double> part = survival_factors(kFirst, 100);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + kFirst));
}

TEST(Update, StochasticDepthDropsNothingInEvaluation) {
  const UpdateStep<double> update(find_placement("stochastic-depth"), {.depth = {4, 4}}, 1);
  EXPECT_TRUE(update.is_branch({.mode = Mode::kEvaluation}));
  EXPECT_FALSE(update.is_branch({.mode = Mode::kTraining}));
}

}  // namespace
}  // namespace addnorm::update_test
