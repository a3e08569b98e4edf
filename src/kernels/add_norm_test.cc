#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>

#include "addnorm/error.h"
#include "addnorm/float16.h"
#include "addnorm/norm.h"
#include "kernels/aliasing.h"
#include "kernels/machine.h"
#include "kernels/plan.h"
#include "support/caches.h"
#include "support/gradient_check.h"
#include "support/instruction_sets.h"
#include "support/norm_case.h"

namespace addnorm::kernels {
namespace {

using testing::describe;
using testing::every_option;
using testing::gradient_error;
using ::testing::HasSubstr;
using testing::max_error;
using testing::NormCase;
using testing::random_matrix;
using testing::random_vector;
using testing::relative_error;
using testing::same_bits;
using ::testing::ThrowsMessage;
using testing::to_double;
using testing::use_caches;

constexpr NormKind kRowKinds[] = {NormKind::kLayer, NormKind::kRms};

/// About 16 roundings; for double, the error of the reference's plain sums.
template <typename T>
constexpr double kTolerance = std::is_same_v<T, float> ? 2e-6 : 1e-13;

template <typename T>
void expect_equals_reference(NormCase<T> c) {
  c.run();
  const auto out = c.expected();
  const auto gradients = c.expected_gradients();
  EXPECT_LE(relative_error(c.y, out.y), kTolerance<T>);
  EXPECT_LE(relative_error(c.d_gamma, gradients.d_gamma), kTolerance<T>);
  EXPECT_LE(relative_error(c.d_beta, gradients.d_beta), kTolerance<T>);
  for (std::size_t r = 0; r < c.shape.samples; ++r) {
    const NormStatistics<T>& s = c.statistics[r];
    const double deviation = out.deviation[r];
    EXPECT_NEAR(s.mean(), out.mean[r], kTolerance<T> * (deviation + std::abs(out.mean[r])));
    EXPECT_NEAR(s.variance, out.variance[r], kTolerance<T> * out.variance[r]);
    EXPECT_NEAR(s.deviation(), deviation, kTolerance<T> * deviation);
  }
  // With one or two features dx is the remainder of larger terms, so its error is compared with g.
  for (std::size_t i = 0; i < c.dx.size(); ++i) {
    const double deviation = out.deviation[i / c.shape.channels];
    ASSERT_NEAR(c.dx[i], gradients.dx[i], 4 * kTolerance<T> / deviation) << "dx at " << i;
  }
}

template <typename T>
class AddNorm : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AddNorm, Types);

TYPED_TEST(AddNorm, EqualsTheReferenceForEveryOption) {
  for (const NormKind kind : kRowKinds) {
    for (const NormOptions& options : every_option(kind)) {
      for (const int absent : {0, 1, 2, 3}) {
        SCOPED_TRACE(describe(options) + ", absent " + std::to_string(absent));
        NormCase<TypeParam> c(options, {5, 33});
        if (absent & 1) c.gamma.clear();
        if (absent & 2) c.beta.clear();
        expect_equals_reference(std::move(c));
      }
    }
  }
}

TYPED_TEST(AddNorm, EqualsTheReferenceForEveryShape) {
  for (const NormKind kind : kRowKinds) {
    for (const std::size_t rows : {0, 1, 2, 63, 64, 65, 129, 300}) {
      for (const std::size_t cols : {1, 2, 3, 15, 16, 17, 31, 33, 64, 100, 768, 1000, 4096}) {
        if (rows > 2 && rows * cols > 129'000) continue;  // the reference is slow
        SCOPED_TRACE(fmt::format("kind {}, {} × {}", static_cast<int>(kind), rows, cols));
        expect_equals_reference(NormCase<TypeParam>({.kind = kind}, {rows, cols}));
      }
    }
  }
}

TYPED_TEST(AddNorm, GradientsAreAddedToWhatIsThere) {
  NormCase<TypeParam> c({}, {270, 33});
  c.run();
  const auto once_gamma = to_double(c.d_gamma);
  const auto once_beta = to_double(c.d_beta);
  std::fill(c.d_gamma.begin(), c.d_gamma.end(), TypeParam{8});
  std::fill(c.d_beta.begin(), c.d_beta.end(), TypeParam{-8});
  c.backward();
  for (std::size_t i = 0; i < c.d_gamma.size(); ++i) {
    EXPECT_EQ(c.d_gamma[i], 8 + static_cast<TypeParam>(once_gamma[i]));
    EXPECT_EQ(c.d_beta[i], -8 + static_cast<TypeParam>(once_beta[i]));
  }
}

struct AddNormShape {
  std::size_t rows = 7;
  std::size_t cols = 37;
  bool factors = true;  ///< skip and gain are vectors
};
/// Each shape runs other loops: short rows, groups, single rows, very wide rows; with factors and
/// without.
constexpr AddNormShape kShapes[] = {{13, 5, false},  {13, 32, false},  {13, 37, false},
                                    {13, 64, false}, {3, 1100, false}, {3, 16385, false},
                                    {7, 37, true},   {3, 16385, true}};

/// One Add & Norm with all optional arguments.
template <typename T>
struct AddNormCase {
  AddNormShape shape;
  TorchGenerator generator{1};
  Matrix<T> x = random_matrix<T>(generator, shape.rows, shape.cols);
  Matrix<T> branch = random_matrix<T>(generator, shape.rows, shape.cols);
  Matrix<T> dy = random_matrix<T>(generator, shape.rows, shape.cols);
  Matrix<T> d_residual = random_matrix<T>(generator, shape.rows, shape.cols);
  Matrix<T> sum{shape.rows, shape.cols}, y{shape.rows, shape.cols}, dx{shape.rows, shape.cols};
  std::vector<T> gamma = random_vector<T>(generator, shape.cols);
  std::vector<T> beta = random_vector<T>(generator, shape.cols);
  std::vector<T> skip = random_vector<T>(generator, shape.factors ? shape.cols : 0);
  std::vector<T> gain = random_vector<T>(generator, shape.factors ? shape.cols : 0);
  std::vector<NormStatistics<T>> statistics{shape.rows};
  std::vector<T> d_gamma = std::vector<T>(shape.cols), d_beta = std::vector<T>(shape.cols);
  std::vector<T> workspace = std::vector<T>(add_norm_workspace(shape.rows, shape.cols));

  explicit AddNormCase(const AddNormShape& s = {}) : shape(s) {}

  AddNormForward<T> forward() {
    return {.add = {.x = x, .branch = branch, .skip = {.vector = skip}, .gain = {.vector = gain}},
            .sum = sum,
            .gamma = gamma,
            .beta = beta,
            .y = y,
            .statistics = statistics};
  }
  AddNormBackward<T> backward() {
    return {.s = sum,
            .statistics = statistics,
            .gamma = gamma,
            .dy = dy,
            .d_residual = d_residual,
            .skip = {.vector = skip},
            .dx = dx,
            .d_gamma = d_gamma,
            .d_beta = d_beta,
            .workspace = workspace};
  }
};

TYPED_TEST(AddNorm, EveryWayToAddEqualsResidualAddThenNorm) {
  using T = TypeParam;
  AddNormCase<T> c;
  const Scale<T> scales[] = {{}, {.constant = T(0.7)}, {.constant = 0}, {.vector = c.skip}};
  const Dropout dropouts[] = {{}, {.probability = 0.3, .seed = 5, .offset = 11}};
  for (const NormKind kind : kRowKinds) {
    for (int choice = 0; choice < 64; ++choice) {
      SCOPED_TRACE(choice);
      const ResidualAdd<T> add{.x = c.x,
                               .branch = (choice & 1) != 0 ? c.branch.view() : MatrixView<T>{},
                               .skip = scales[choice / 2 % 4],
                               .gain = scales[choice / 8 % 4],
                               .dropout = dropouts[choice / 32]};
      Matrix<T> sum(c.x.rows(), c.x.cols());
      Matrix<T> y(c.x.rows(), c.x.cols());
      residual_add(add, sum.view());
      add_norm_forward<T>({.kind = kind}, {.add = {.x = sum}, .gamma = c.gamma, .y = y});

      for (const bool keep_sum : {false, true}) {
        AddNormForward<T> fused{.add = add, .gamma = c.gamma, .y = c.y};
        if (keep_sum) fused.sum = c.sum;
        add_norm_forward({.kind = kind}, fused);
        EXPECT_TRUE(same_bits(c.y.flat(), y.flat())) << "sum kept: " << keep_sum;
        EXPECT_TRUE(!keep_sum || same_bits(c.sum.flat(), sum.flat()));
      }
    }
  }
}

TYPED_TEST(AddNorm, BackwardAddsTheResidualGradient) {
  using T = TypeParam;
  AddNormCase<T> c;
  add_norm_forward({}, c.forward());
  const Scale<T> scales[] = {{}, {.constant = T(0.7)}, {.vector = c.skip}};
  AddNormBackward<T> args = c.backward();
  args.d_residual = {};
  add_norm_backward({}, args);
  const auto norm_alone = to_double(c.dx.flat());
  for (const Scale<T>& skip : scales) {
    args = c.backward();
    args.skip = skip;
    add_norm_backward({}, args);
    const auto expected = reference::residual_add(
        {.x = to_double(c.d_residual.flat()),
         .branch = norm_alone,
         .skip = skip.vector.empty() ? std::vector<double>{skip.constant} : to_double(c.skip),
         .features = c.x.cols()});
    EXPECT_LE(max_error(c.dx.flat(), expected), kTolerance<T>);
  }
}

template <typename T>
void expect_outputs_may_be_inputs(const AddNormShape& shape) {
  using Case = AddNormCase<T>;
  Case plain(shape);
  add_norm_forward({}, plain.forward());
  add_norm_backward({}, plain.backward());

  struct Alias {
    const char* what;
    Matrix<T> Case::*sum;
    Matrix<T> Case::*y;
  };
  const Alias aliases[] = {{"sum = x", &Case::x, &Case::y},
                           {"sum = branch", &Case::branch, &Case::y},
                           {"y = x", &Case::sum, &Case::x},
                           {"y = branch", &Case::sum, &Case::branch},
                           {"sum = x, y = branch", &Case::x, &Case::branch}};
  for (const Alias& alias : aliases) {
    SCOPED_TRACE(alias.what);
    Case c(shape);
    AddNormForward<T> args = c.forward();
    args.sum = c.*alias.sum;
    args.y = c.*alias.y;
    add_norm_forward({}, args);
    EXPECT_TRUE(same_bits((c.*alias.sum).flat(), plain.sum.flat()));
    EXPECT_TRUE(same_bits((c.*alias.y).flat(), plain.y.flat()));
  }
  for (const auto y : {&Case::x, &Case::branch}) {  // no sum is kept
    Case c(shape);
    AddNormForward<T> args = c.forward();
    args.sum = {};
    args.y = c.*y;
    add_norm_forward({}, args);
    EXPECT_TRUE(same_bits((c.*y).flat(), plain.y.flat()));
  }
  for (const auto dx : {&Case::sum, &Case::dy, &Case::d_residual}) {
    Case c(shape);
    add_norm_forward({}, c.forward());
    AddNormBackward<T> args = c.backward();
    args.dx = c.*dx;
    add_norm_backward({}, args);
    EXPECT_TRUE(same_bits((c.*dx).flat(), plain.dx.flat()));
    EXPECT_TRUE(same_bits(c.d_gamma, plain.d_gamma));
  }
}
TYPED_TEST(AddNorm, OutputsMayBeTheInputsThatTheHeaderNames) {
  for (const AddNormShape& shape : kShapes) {
    SCOPED_TRACE(shape.cols);
    expect_outputs_may_be_inputs<TypeParam>(shape);
  }
}

/// A matrix that is a view of a wider one. The values outside the view are NaN: they would spread
/// if read, and must still be there afterwards.
template <typename T>
struct Inset {
  static constexpr std::size_t kMargin = 3;
  Matrix<T> whole;
  MatrixView<T> view;

  explicit Inset(const Matrix<T>& from)
      : whole(from.rows() + 2, from.cols() + 2 * kMargin),
        view(whole.view().block(1, kMargin, from.rows(), from.cols())) {
    whole.fill(std::numeric_limits<T>::quiet_NaN());
    for (std::size_t r = 0; r < from.rows(); ++r) {
      std::copy_n(from.view().row(r).data(), from.cols(), view.row(r).data());
    }
  }
  void expect_holds(const Matrix<T>& expected) const {
    for (std::size_t r = 0; r < view.rows; ++r) {
      EXPECT_TRUE(same_bits(view.row(r), expected.view().row(r))) << "row " << r;
    }
    const auto values = whole.flat();
    EXPECT_EQ(std::count_if(values.begin(), values.end(), [](T v) { return std::isnan(v); }),
              values.size() - view.size())
        << "the margin was written to";
  }
};

template <typename T>
void expect_views_are_kept_to(const AddNormShape& shape) {
  AddNormCase<T> c(shape);
  add_norm_forward({}, c.forward());
  add_norm_backward({}, c.backward());

  const Inset<T> x(c.x), branch(c.branch), dy(c.dy), d_residual(c.d_residual);
  const Inset<T> sum(c.x), y(c.x), dx(c.x);
  AddNormForward<T> forward = c.forward();
  forward.add.x = x.view;
  forward.add.branch = branch.view;
  forward.sum = sum.view;
  forward.y = y.view;
  add_norm_forward({}, forward);
  sum.expect_holds(c.sum);
  y.expect_holds(c.y);

  AddNormBackward<T> backward = c.backward();
  backward.s = sum.view;
  backward.dy = dy.view;
  backward.d_residual = d_residual.view;
  backward.dx = dx.view;
  add_norm_backward({}, backward);
  dx.expect_holds(c.dx);
}
TYPED_TEST(AddNorm, ViewsIntoWiderMatricesAreReadAndWrittenInsideOnly) {
  for (const AddNormShape& shape : kShapes) {
    SCOPED_TRACE(shape.cols);
    expect_views_are_kept_to<TypeParam>(shape);
  }
}

// Rows from memory or from the far part of the last-level cache run other loops, and so do
// non-temporal stores.
template <typename Pair>
class AddNormBeyondTheCaches : public ::testing::Test {
 public:
  using S = typename Pair::first_type;
  using B = typename Pair::second_type;

  static constexpr std::size_t kSize = 300'000;
  Matrix<S> x, d_residual;
  Matrix<B> branch, dy;

  struct Results {
    Matrix<S> sum, dx;
    Matrix<B> y;
    std::vector<float> d_gamma, d_beta;
  };

  /// The matrices that are overwritten.
  enum class Overwrites {
    kNothing,
    kStream,  ///< the sum overwrites x, and dx the residual gradient
    kBranch,  ///< y overwrites the branch, and dx overwrites dy if it has the same type
  };

  static constexpr std::size_t kNone = 1;  ///< A last-level cache that holds nothing,
  static constexpr std::size_t kAll = std::size_t{1} << 40;  ///< and one that holds everything.
  /// A cache of which the matrices take between three quarters and all.
  static std::size_t barely(std::size_t rows, std::size_t cols, Overwrites overwrites) {
    const bool once = overwrites == Overwrites::kStream ||
                      (overwrites == Overwrites::kBranch && std::is_same_v<S, B>);
    return rows * cols * ((once ? 2 : 3) * sizeof(S) + sizeof(B)) * 20 / 19;
  }

  void SetUp() override {
    std::uint32_t state = 1;
    const auto fill = [&](auto& matrix) {
      matrix.resize(1, kSize);
      for (auto& value : matrix.flat()) {
        state = state * 1664525 + 1013904223;
        value = static_cast<std::decay_t<decltype(value)>>(static_cast<float>(state) / 0x1p31F - 1);
      }
    };
    fill(x), fill(d_residual), fill(branch), fill(dy);
    x.flat()[kSize / 3] = S(1e30F);  // its row is scaled, and then other loops run
  }
  void TearDown() override { use_this_machine(); }

  static std::size_t rows_of(std::size_t stride) {
    return kSize / stride / 4 * 4 - 1;  // the last three rows are no complete group
  }

  /// Runs forward and backward on rows of `cols` values with the stride `stride`.
  Results run(NormKind kind, std::size_t cols, std::size_t stride,
              Overwrites overwrites = Overwrites::kNothing, bool adds_residual = true) const {
    Results results{{1, kSize}, {1, kSize}, {1, kSize}, {}, {}};
    const bool stream = overwrites == Overwrites::kStream;
    const bool over_branch = overwrites == Overwrites::kBranch;
    std::ranges::copy(x.flat(), results.sum.flat().begin());
    std::ranges::copy(branch.flat(), results.y.flat().begin());
    std::ranges::copy(d_residual.flat(), results.dx.flat().begin());
    const std::size_t betas = kind == NormKind::kLayer ? cols : 0;
    results.d_gamma.resize(cols), results.d_beta.resize(betas);
    TorchGenerator generator{1};
    const std::vector<float> gamma = random_vector<float>(generator, cols);
    const std::vector<float> beta = random_vector<float>(generator, betas);
    const NormOptions options{.kind = kind};
    const std::size_t rows = rows_of(stride);
    const auto of = [&](auto& matrix) {
      return MatrixView{matrix.flat().data(), rows, cols, stride};
    };
    const auto source = [&]<typename T>(const Matrix<T>& from, const Matrix<T>& overwritten,
                                        bool overwrite) {
      return MatrixView<const T>(of(overwrite ? overwritten : from));
    };
    // whether the rows are aligned for non-temporal stores
    const bool lines = stride * sizeof(B) % 64 == 0;
    EXPECT_TRUE(!lines || (streamable(of(results.sum)) && streamable(of(results.y)) &&
                           streamable(of(results.dx))));
    MatrixView<const B> dy_view = of(dy);
    if constexpr (std::is_same_v<S, B>) {
      for (std::size_t r = 0; over_branch && r < rows; ++r) {
        std::ranges::copy(of(dy).row(r), of(results.dx).row(r).begin());
      }
      dy_view = source(dy, results.dx, over_branch);
    }
    std::vector<NormStatistics<float>> statistics(rows);
    std::vector<float> workspace(add_norm_workspace(rows, cols));
    add_norm_forward<S, B>(options, {.add = {.x = source(x, results.sum, stream),
                                             .branch = source(branch, results.y, over_branch)},
                                     .sum = of(results.sum),
                                     .gamma = gamma,
                                     .beta = beta,
                                     .y = of(results.y),
                                     .statistics = statistics});
    add_norm_backward<S, B>(options,
                            {.s = of(results.sum),
                             .statistics = statistics,
                             .gamma = gamma,
                             .dy = dy_view,
                             .d_residual = adds_residual ? source(d_residual, results.dx, stream)
                                                         : MatrixView<const S>{},
                             .dx = of(results.dx),
                             .d_gamma = results.d_gamma,
                             .d_beta = results.d_beta,
                             .workspace = workspace});
    return results;
  }

  /// Compares the rows, and the gaps between them, where nothing is written.
  static void expect_same_bits(const Results& a, const Results& b) {
    const auto equal = [](const auto& m, const auto& n) {
      return std::memcmp(m.data(), n.data(), m.flat().size_bytes()) == 0;
    };
    EXPECT_TRUE(equal(a.sum, b.sum));
    EXPECT_TRUE(equal(a.y, b.y));
    EXPECT_TRUE(equal(a.dx, b.dx));
    EXPECT_EQ(a.d_gamma, b.d_gamma);
    EXPECT_EQ(a.d_beta, b.d_beta);
  }
};
using StoragePairs = ::testing::Types<std::pair<float, float>, std::pair<BFloat16, BFloat16>,
                                      std::pair<float, BFloat16>>;
TYPED_TEST_SUITE(AddNormBeyondTheCaches, StoragePairs);

// Most strides are whole cache lines, which non-temporal stores need; two are not. γ and β of rows
// of at least 256 features take three quarters of an L1 of 1 KB.
TYPED_TEST(AddNormBeyondTheCaches, GivesTheSameBitsWithCachesOfAnySize) {
  using Over = typename TestFixture::Overwrites;
  const std::pair<std::size_t, std::size_t> shapes[] = {
      {32, 32},     {50, 64},     {64, 64},     {80, 96},     {96, 96},
      {128, 128},   {129, 160},   {150, 150},   {255, 256},   {288, 288},
      {320, 320},   {1000, 1000}, {1000, 1024}, {1024, 1024}, {1500, 1504},
      {1504, 1504}, {2048, 2048}, {2075, 2080}, {8192, 8192}, {9000, 9024}};
  for (const NormKind kind : kRowKinds) {
    for (const auto& [cols, stride] : shapes) {
      use_caches(TestFixture::kAll);
      const auto expected = this->run(kind, cols, stride);
      for (const std::size_t kibibytes : {1, 32, 48}) {
        for (const auto overwrites : {Over::kNothing, Over::kStream, Over::kBranch}) {
          const std::size_t rows = TestFixture::rows_of(stride);
          for (const std::size_t last :
               {TestFixture::kNone, TestFixture::barely(rows, cols, overwrites)}) {
            SCOPED_TRACE(::testing::Message()
                         << "kind " << static_cast<int>(kind) << ", " << cols << ", stride "
                         << stride << ", caches of " << kibibytes << " KB and " << last
                         << " bytes, overwrites " << static_cast<int>(overwrites));
            use_caches(last, kibibytes << 10);
            this->expect_same_bits(this->run(kind, cols, stride, overwrites), expected);
          }
        }
      }
    }
  }
}

TYPED_TEST(AddNormBeyondTheCaches, GivesTheSameBitsOnEveryInstructionSet) {
  using Over = typename TestFixture::Overwrites;
  const std::string in_use(instruction_set());
  for (const std::size_t cols : {96, 512, 1504, 2080, 4096}) {
    use_caches(TestFixture::kAll);
    const auto expected = this->run(NormKind::kLayer, cols, cols, Over::kNothing, false);
    const std::size_t rows = TestFixture::rows_of(cols);
    for (const std::string& name : testing::all_instruction_sets()) {
      use_instruction_set(name);
      for (const auto overwrites : {Over::kNothing, Over::kStream}) {
        for (const std::size_t last :
             {TestFixture::kNone, TestFixture::barely(rows, cols, overwrites)}) {
          SCOPED_TRACE(::testing::Message() << name << ", " << cols << ", " << last << " bytes");
          use_caches(last);
          this->expect_same_bits(this->run(NormKind::kLayer, cols, cols, overwrites, false),
                                 expected);
        }
      }
    }
    use_instruction_set(in_use);
  }
}

// Forces each plan, whatever plan() would choose for the shape.
TYPED_TEST(AddNormBeyondTheCaches, GivesTheSameBitsInEveryLoopOnEveryInstructionSet) {
  const std::string in_use(instruction_set());
  for (const std::size_t cols : {8, 20, 32, 64, 96, 512, 2080}) {
    const auto expected = this->run(NormKind::kLayer, cols, cols);
    for (const std::string& name : testing::all_instruction_sets()) {
      use_instruction_set(name);
      for (const Loop loop : {Loop::kRegisters, Loop::kTwoPass, Loop::kPipelined}) {
        for (const std::size_t rows : {1, 4, 8}) {
          for (const auto stores : {Stores::kCached, Stores::kNonTemporal}) {
            const Plan plan{.loop = loop,
                            .rows = rows,
                            .prefetch = rows * 512,
                            .stores = stores,
                            .from_memory = stores == Stores::kNonTemporal,
                            .software_pipelined = rows == 4};
            SCOPED_TRACE(::testing::Message() << name << ", " << cols << ", " << describe(plan));
            force_plan(plan);
            this->expect_same_bits(this->run(NormKind::kLayer, cols, cols), expected);
            force_plan({});
          }
        }
      }
    }
    use_instruction_set(in_use);
  }
}

// The cases: the sum over the branch and y over x; y over x without a sum; dx over s; and a sum
// whose rows are not aligned to lines, while those of y are.
TYPED_TEST(AddNormBeyondTheCaches, GivesTheSameBitsWhateverIsOverwritten) {
  using T = typename TestFixture::S;
  if constexpr (std::is_same_v<T, typename TestFixture::B>) {
    for (const std::size_t cols : {32, 64, 96, 512, 1504}) {
      SCOPED_TRACE(cols);
      use_caches(TestFixture::kAll);
      const auto expected = this->run(NormKind::kLayer, cols, cols);
      use_caches(TestFixture::kNone);
      const std::size_t rows = TestFixture::rows_of(cols);
      const auto of = [&](auto& matrix) {
        return MatrixView(matrix.flat().data(), rows, cols, cols);
      };
      const auto copy_of = [](const Matrix<T>& matrix) {
        Matrix<T> copy(matrix.rows(), matrix.cols());
        std::ranges::copy(matrix.flat(), copy.flat().begin());
        return copy;
      };
      TorchGenerator generator{1};
      const std::vector<float> gamma = random_vector<float>(generator, cols);
      const std::vector<float> beta = random_vector<float>(generator, cols);
      std::vector<NormStatistics<float>> statistics(rows);
      AddNormForward<T> forward{.gamma = gamma, .beta = beta, .statistics = statistics};
      const auto expect_rows = [&](const Matrix<T>& results, const Matrix<T>& expected_rows) {
        EXPECT_EQ(std::memcmp(results.data(), expected_rows.data(), rows * cols * sizeof(T)), 0);
      };

      Matrix<T> y = copy_of(this->x), sum = copy_of(this->branch);
      forward.add = {.x = of(y), .branch = of(sum)};
      forward.sum = of(sum), forward.y = of(y);
      add_norm_forward({}, forward);
      expect_rows(sum, expected.sum), expect_rows(y, expected.y);

      y = copy_of(this->x);
      forward.add = {.x = of(y), .branch = of(this->branch)};
      forward.sum = {}, forward.y = of(y);
      add_norm_forward({}, forward);
      expect_rows(y, expected.y);

      Matrix<T> apart(rows, cols + 1);
      forward.add = {.x = of(this->x), .branch = of(this->branch)};
      forward.sum = MatrixView(apart.data(), rows, cols, cols + 1);
      add_norm_forward({}, forward);
      expect_rows(y, expected.y);
      for (std::size_t r = 0; r < rows; ++r) {
        ASSERT_EQ(std::memcmp(apart.view().row(r).data(), of(expected.sum).row(r).data(),
                              cols * sizeof(T)),
                  0);
      }

      Matrix<T> dx = copy_of(expected.sum);
      std::vector<float> d_gamma(cols), d_beta(cols), workspace(add_norm_workspace(rows, cols));
      add_norm_backward({}, AddNormBackward<T>{.s = of(dx),
                                               .statistics = statistics,
                                               .gamma = gamma,
                                               .dy = of(this->dy),
                                               .d_residual = of(this->d_residual),
                                               .dx = of(dx),
                                               .d_gamma = d_gamma,
                                               .d_beta = d_beta,
                                               .workspace = workspace});
      expect_rows(dx, expected.dx);
      EXPECT_EQ(d_gamma, expected.d_gamma);
      EXPECT_EQ(d_beta, expected.d_beta);
    }
  }
}

// In the caches several wide rows are read before they are normalized, and they share γ and β.
template <typename Pair>
class AddNormOfWideRows : public ::testing::Test {
 public:
  using S = typename Pair::first_type;
  using B = typename Pair::second_type;
  enum class Sum { kNone, kMade, kKept };

  static constexpr std::size_t kRows = 150;
  TorchGenerator generator{1};

  struct Inputs {
    Matrix<S> x;
    Matrix<B> branch;
    std::vector<float> gamma, beta;
  };
  struct Outputs {
    Matrix<S> sum;
    Matrix<B> y;

    bool operator==(const Outputs& other) const {
      return std::ranges::equal(std::as_bytes(sum.flat()), std::as_bytes(other.sum.flat())) &&
             std::ranges::equal(std::as_bytes(y.flat()), std::as_bytes(other.y.flat()));
    }
  };

  template <typename T>
  Matrix<T> rounded(std::size_t cols) {
    const std::vector<float> values = random_vector<float>(generator, kRows * cols);
    Matrix<T> result(kRows, cols);
    std::ranges::transform(values, result.flat().begin(), [](float value) { return T(value); });
    return result;
  }
  /// Returns values of moderate size, except for one very large row and one very small one.
  Inputs inputs(std::size_t cols) {
    Inputs in{rounded<S>(cols), rounded<B>(cols), random_vector<float>(generator, cols),
              random_vector<float>(generator, cols)};
    for (const auto& [row, factor] : {std::pair(3, 1e30F), std::pair(77, 1e-30F)}) {
      for (S& value : MatrixView<S>(in.x).row(row)) value = S(static_cast<float>(value) * factor);
    }
    return in;
  }

  /// Runs forward on `step` rows at a time.
  static Outputs forward(NormKind kind, const Inputs& in, Sum sum, std::size_t step) {
    const std::size_t cols = in.gamma.size();
    Outputs out{{kRows, cols}, {kRows, cols}};
    for (std::size_t r = 0; r < kRows; r += step) {
      const auto rows = [&](auto& matrix) {
        return MatrixView(matrix.flat().data() + r * cols, std::min(step, kRows - r), cols);
      };
      AddNormForward<S, B> args{.add = {.x = rows(in.x)}, .gamma = in.gamma, .y = rows(out.y)};
      if (sum != Sum::kNone) args.add.branch = rows(in.branch);
      if (sum == Sum::kKept) args.sum = rows(out.sum);
      if (kind == NormKind::kLayer) args.beta = in.beta;
      add_norm_forward<S, B>({.kind = kind}, args);
    }
    return out;
  }
};
TYPED_TEST_SUITE(AddNormOfWideRows, StoragePairs);

// The last instruction set has one loop for all options.
TYPED_TEST(AddNormOfWideRows, GivesTheBitsOfARowAloneWhateverTheScalesOfOthers) {
  using Results = typename TestFixture::Outputs;
  const std::string in_use(instruction_set());
  for (const std::size_t cols : {1100, 2048, 2600, 4096, 9000}) {
    const auto in = this->inputs(cols);
    for (const NormKind kind : kRowKinds) {
      for (const auto sum :
           {TestFixture::Sum::kNone, TestFixture::Sum::kMade, TestFixture::Sum::kKept}) {
        use_instruction_set(testing::all_instruction_sets().back());
        const Results alone = this->forward(kind, in, sum, 1);
        use_instruction_set(in_use);
        for (const std::size_t kibibytes : {32, 48}) {
          SCOPED_TRACE(::testing::Message()
                       << "kind " << static_cast<int>(kind) << ", " << cols << ", sum "
                       << static_cast<int>(sum) << ", first cache " << kibibytes << " KB");
          use_caches(std::size_t{32} << 20, kibibytes << 10);
          const Results together = this->forward(kind, in, sum, TestFixture::kRows);
          use_this_machine();
          EXPECT_TRUE(together == alone);
        }
      }
    }
  }
}

/// A thread's memory holds s of some rows, γ and β beside each other. Plans that stage more rows,
/// or wider ones, than there is room for would overwrite a γ or β that is made there.
TEST(AddNormStaging, KeepsWideRowsApartFromParameters) {
  constexpr std::size_t kRows = 9;
  TorchGenerator generator{5};
  for (const std::size_t cols : {1024, 2048, 4096, 16384, 20480, 33792}) {
    const Matrix<float> x = random_matrix<float>(generator, kRows, cols);
    const Matrix<float> branch = random_matrix<float>(generator, kRows, cols);
    const std::vector<float> gamma = random_vector<float>(generator, cols);
    const auto run = [&](bool with_gamma, bool with_sum) {
      Matrix<float> sum(kRows, cols), y(kRows, cols);
      AddNormForward<float> args{.add = {.x = x, .branch = branch}, .y = y};
      if (with_gamma) args.gamma = gamma;
      if (with_sum) args.sum = sum;
      add_norm_forward<float>({.gamma_form = GammaForm::kOnePlus}, args);
      std::vector<float> both(y.flat().begin(), y.flat().end());
      both.insert(both.end(), sum.flat().begin(), sum.flat().end());
      return both;
    };
    for (const bool with_gamma : {false, true}) {
      for (const bool with_sum : {false, true}) {
        SCOPED_TRACE(fmt::format("{} features, gamma {}, sum {}", cols, with_gamma, with_sum));
        use_caches(std::size_t{1} << 40);
        const std::vector<float> expected = run(with_gamma, with_sum);
        use_caches(1024);
        EXPECT_TRUE(same_bits(run(with_gamma, with_sum), expected)) << "non-temporal stores";
        use_this_machine();
        force_plan(Plan{.loop = Loop::kTwoPass, .rows = 4, .software_pipelined = true});
        EXPECT_TRUE(same_bits(run(with_gamma, with_sum), expected)) << "software-pipelined";
        force_plan({});
      }
    }
  }
}

TEST(AddNormGradient, EqualsCentralDifferencesForEveryOption) {
  for (const NormKind kind : kRowKinds) {
    for (const NormOptions& options : every_option(kind)) {
      SCOPED_TRACE(describe(options));
      NormCase<double> c(options, {3, 9});
      c.run();
      auto loss = [&] {
        c.forward();
        return std::inner_product(c.y.begin(), c.y.end(), c.dy.begin(), 0.0);
      };
      EXPECT_LE(gradient_error(c.x, c.dx, loss), 1e-9);
      EXPECT_LE(gradient_error(c.gamma, c.d_gamma, loss), 1e-9);
      EXPECT_LE(gradient_error(c.beta, c.d_beta, loss), 1e-9);
    }
  }
}

struct ForwardMistake {
  const char* message;
  std::function<void(NormOptions&, AddNormForward<float>&)> make;
};

TEST(AddNormErrors, ForwardNamesTheArgumentThatIsWrong) {
  std::vector<float> three(3);
  Matrix<float> small(2, 2);
  const ForwardMistake mistakes[] = {
      {"epsilon is -1", [](auto& o, auto&) { o.epsilon = -1; }},
      {"epsilon is nan", [](auto& o, auto&) { o.epsilon = NAN; }},
      {"epsilon is inf", [](auto& o, auto&) { o.epsilon = INFINITY; }},
      {"epsilon is 1e+31, must be at most 1e+30", [](auto& o, auto&) { o.epsilon = 1e31; }},
      {"output_scale is nan", [](auto& o, auto&) { o.output_scale = NAN; }},
      {"statistics are given, which is for kBatch alone",
       [](auto&, auto& a) { a.statistics_from = StatisticsFrom::kGiven; }},
      {"no values to normalize", [](auto&, auto& a) { a.add.x.cols = 0; }},
      {"needs at least 2 values",
       [](auto& o, auto& a) {
         o.variance = Variance::kUnbiased;
         a.add.x.cols = 1;
       }},
      {"the stride of x is 1, must be at least its 37 columns",
       [](auto&, auto& a) { a.add.x.stride = 1; }},
      {"branch is 2 × 2", [&](auto&, auto& a) { a.add.branch = small; }},
      {"x has 7 rows of stride 4611686018427387904, more than there is memory",
       [](auto&, auto& a) { a.add.x.stride = std::size_t{1} << 62; }},
      {"branch is 7 × 37 but has no memory", [](auto&, auto& a) { a.add.branch.data = nullptr; }},
      {"sum is 2 × 2", [&](auto&, auto& a) { a.sum = small; }},
      {"sum and y overlap, each needs memory of its own", [](auto&, auto& a) { a.sum = a.y; }},
      {"y is 2 × 2", [&](auto&, auto& a) { a.y = small; }},
      {"y is absent, must be 7 × 37", [&](auto&, auto& a) { a.y = {}; }},
      {"skip has 3 values", [&](auto&, auto& a) { a.add.skip.vector = three; }},
      {"gain has 3 values", [&](auto&, auto& a) { a.add.gain.vector = three; }},
      {"gamma has 3 values", [&](auto&, auto& a) { a.gamma = three; }},
      {"beta has 3 values", [&](auto&, auto& a) { a.beta = three; }},
      {"statistics has 1 values", [](auto&, auto& a) { a.statistics = a.statistics.first(1); }},
      {"probability is 1,", [](auto&, auto& a) { a.add.dropout.probability = 1; }},
      {"probability is nan", [](auto&, auto& a) { a.add.dropout.probability = NAN; }}};
  for (const auto& [message, make] : mistakes) {
    AddNormCase<float> c;
    NormOptions options;
    AddNormForward<float> args = c.forward();
    make(options, args);
    EXPECT_THAT([&] { add_norm_forward(options, args); }, ThrowsMessage<Error>(HasSubstr(message)));
  }
}

struct BackwardMistake {
  const char* message;
  std::function<void(NormOptions&, AddNormBackward<float>&)> make;
};

TEST(AddNormErrors, BackwardNamesTheArgumentThatIsWrong) {
  std::vector<float> three(3);
  Matrix<float> small(2, 2);
  const BackwardMistake mistakes[] = {
      {"epsilon is -1", [](auto& o, auto&) { o.epsilon = -1; }},
      {"statistics are given, which is for kBatch alone",
       [](auto&, auto& a) { a.statistics_from = StatisticsFrom::kGiven; }},
      {"the stride of s is 1, must be at least its 37 columns",
       [](auto&, auto& a) { a.s.stride = 1; }},
      {"dy is 2 × 2", [&](auto&, auto& a) { a.dy = small; }},
      {"dy is absent, must be 7 × 37", [&](auto&, auto& a) { a.dy = {}; }},
      {"d_residual is 2 × 2", [&](auto&, auto& a) { a.d_residual = small; }},
      {"dx is 2 × 2", [&](auto&, auto& a) { a.dx = small; }},
      {"dx is absent, must be 7 × 37", [&](auto&, auto& a) { a.dx = {}; }},
      {"skip has 3 values", [&](auto&, auto& a) { a.skip.vector = three; }},
      {"gamma has 3 values", [&](auto&, auto& a) { a.gamma = three; }},
      {"d_gamma has 3 values", [&](auto&, auto& a) { a.d_gamma = three; }},
      {"d_beta has 3 values", [&](auto&, auto& a) { a.d_beta = three; }},
      {"statistics has 0 values", [](auto&, auto& a) { a.statistics = {}; }},
      {"workspace has 3 values", [&](auto&, auto& a) { a.workspace = three; }}};
  for (const auto& [message, make] : mistakes) {
    AddNormCase<float> c;
    NormOptions options;
    AddNormBackward<float> args = c.backward();
    make(options, args);
    EXPECT_THAT([&] { add_norm_backward(options, args); },
                ThrowsMessage<Error>(HasSubstr(message)));
  }
}

TEST(AddNormErrors, AWorkspaceOfOneValueLessIsRefused) {
  for (const NormKind kind : testing::kAllKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    for (const auto wanted : {&NormCase<float>::d_gamma, &NormCase<float>::d_beta}) {
      const bool of_rows = normalizes_rows(kind);
      NormCase<float> c({.kind = kind}, {of_rows ? 300u : 5u, 6, of_rows ? 1u : 7u});
      c.run();
      (wanted == &NormCase<float>::d_gamma ? c.d_beta : c.d_gamma).clear();
      EXPECT_NO_THROW(c.backward());
      const std::size_t needed = c.workspace.size();
      c.workspace.pop_back();
      EXPECT_THAT([&] { c.backward(); },
                  ThrowsMessage<Error>(HasSubstr(fmt::format(
                      "workspace has {} values, must have at least {}", needed - 1, needed))));
    }
  }
}

/// The first eight of nine equal rows may go through a loop in registers, the last one does not.
/// All must have the same bits, the signs of zeros included: −0 + 0 is 0, so a loop must not add a
/// zero where another adds nothing. An absent β and an absent residual gradient add nothing.
TEST(AddNormZeros, HaveTheSameSignInEveryLoop) {
  constexpr std::size_t kRows = 9;
  for (const std::string& set : testing::all_instruction_sets()) {
    use_instruction_set(set);
    for (const NormKind kind : kRowKinds) {
      for (const std::size_t cols : {2, 3, 8, 16, 32, 33, 64, 100, 1100}) {
        for (const auto& [first, others] :
             {std::pair{1.0F, 1.0F}, {-0.0F, -0.0F}, {1.0F, -0.0F}, {-1.0F, 0.0F}}) {
          SCOPED_TRACE(fmt::format("{}, kind {}, {} features, {}, then {}", set,
                                   static_cast<int>(kind), cols, first, others));
          Matrix<float> x(kRows, cols), y(kRows, cols), zero(kRows, cols), dx(kRows, cols);
          for (std::size_t r = 0; r < kRows; ++r) {
            std::ranges::fill(x.view().row(r), others);
            x(r, 0) = first;
          }
          std::vector<NormStatistics<float>> statistics(kRows);
          const std::vector<float> gamma(cols, -1.0F);
          const NormOptions options{.kind = kind};
          add_norm_forward<float>(options, {.add = {.x = x}, .y = y, .statistics = statistics});
          add_norm_backward<float>(
              options, {.s = x, .statistics = statistics, .gamma = gamma, .dy = zero, .dx = dx});
          const std::span all(statistics);
          for (std::size_t r = 0; r < kRows; ++r) {
            SCOPED_TRACE(r);
            EXPECT_TRUE(same_bits(y.view().row(r), y.view().row(kRows - 1)));
            EXPECT_TRUE(same_bits(dx.view().row(r), dx.view().row(kRows - 1)));
            EXPECT_EQ(std::memcmp(&all[r], &all[kRows - 1], sizeof all[r]), 0);
            if (kind != NormKind::kRms) continue;
            EXPECT_EQ(std::signbit(y(r, 1)), std::signbit(others)) << "y = x/deviation";
            EXPECT_EQ(std::signbit(dx(r, 0)), first > 0) << "dx = (−0 − 0·first)/deviation";
          }
        }
      }
    }
  }
  use_instruction_set(testing::all_instruction_sets().front());
}

}  // namespace
}  // namespace addnorm::kernels
