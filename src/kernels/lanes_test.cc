#include "addnorm/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>

#include "addnorm/error.h"
#include "kernels/dropout.h"
#include "kernels/plan.h"
#include "support/caches.h"
#include "support/gradient_check.h"
#include "support/instruction_sets.h"
#include "support/norm_case.h"

namespace addnorm::kernels {
namespace {

using testing::all_instruction_sets;
using testing::gradient_error;
using ::testing::HasSubstr;
using testing::random_vector;
using testing::relative_error;
using testing::same_bits;
using ::testing::ThrowsMessage;
using testing::to_double;
using testing::use_caches;

enum class Layout { kRowByRow, kLaneByLane };
enum class Mixes { kSame, kPerRow };

/// The shape and options of a case; 0 lanes of a kind mean that it is absent.
struct Shape {
  std::size_t rows = 7;
  std::size_t features = 37;
  std::size_t n = 4;        ///< lanes of x
  std::size_t q = 1;        ///< of the branch
  std::size_t carried = 4;  ///< of X′; 0: no carry
  std::size_t k = 1;        ///< of y
  Mixes mixes = Mixes::kSame;
  Layout layout = Layout::kRowByRow;
  std::size_t gap = 0;  ///< elements between neighbours in memory
  std::optional<NormKind> norm = NormKind::kLayer;
  double dropout = 0;

  std::size_t made() const { return carried == 0 ? n : carried; }
  bool alone() const { return carried == 0 && q == 0; }
  std::string text() const {
    return fmt::format(
        "{} rows, {} features, n {}, q {}, n′ {}, k {}, per row {}, lane by lane {}, "
        "gap {}, norm {}, dropout {}",
        rows, features, n, q, carried, k, mixes == Mixes::kPerRow, layout == Layout::kLaneByLane,
        gap, norm ? static_cast<int>(*norm) : -1, dropout);
  }
};

/// Returns a random shape, including n ≠ n′, several branch lanes, several reads and odd sizes.
Shape any_shape(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto of = [&](std::vector<std::size_t> values) { return values[engine() % values.size()]; };
  Shape s;
  s.rows = of({1, 2, 5, 40});
  s.features = of({2, 3, 31, 32, 100, 256, 257, 700, 1024, 1300});
  s.n = of({1, 2, 3, 4, 4, 5, 8, 16});
  s.q = of({0, 1, 1, 1, 2, 3});
  s.carried = of({0, s.n, s.n, 1, 4, 7, 16});
  s.k = of({0, 1, 1, 1, 1, 3});
  if (s.alone() && seed % 2 == 0) s.n = of({17, 33, 40});
  s.mixes = of({0, 1}) == 0 ? Mixes::kSame : Mixes::kPerRow;
  s.layout = of({0, 1}) == 0 ? Layout::kRowByRow : Layout::kLaneByLane;
  s.gap = of({0, 0, 3, 16});
  s.norm = of({0, 1}) == 0 ? NormKind::kLayer : NormKind::kRms;
  if (s.k != 1 || of({0, 1, 2}) == 0) s.norm.reset();
  if (s.q == 1 && of({0, 1, 2}) == 0) s.dropout = 0.3;
  return s;
}

/// Lanes in separate memory. The gaps hold 7, which must not change.
template <typename T>
struct Tensor {
  using V = Arithmetic<T>;
  static constexpr float kUntouched = 7;
  std::size_t rows, lanes, features, row_stride, lane_stride;
  std::vector<T> values;

  Tensor(const Shape& s, std::size_t lanes_) : rows(s.rows), lanes(lanes_), features(s.features) {
    const bool by_row = s.layout == Layout::kRowByRow;
    lane_stride = by_row ? features + s.gap : rows * (features + s.gap);
    row_stride = by_row ? lanes * lane_stride : features + s.gap;
    values.resize(rows * lanes * (features + s.gap), T(kUntouched));
  }
  Tensor(const Shape& s, std::size_t lanes_, TorchGenerator& generator) : Tensor(s, lanes_) {
    for_each([&](T& value) { value = T(random_vector<float>(generator, 1)[0]); });
  }

  template <typename Body>
  void for_each(const Body& body) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < lanes; ++i) {
        for (std::size_t c = 0; c < features; ++c) body(view().lane(i)(r, c));
      }
    }
  }
  LanesView<T> view() {
    if (lanes == 0) return {};
    return {values.data(), rows, lanes, features, row_stride, lane_stride};
  }
  /// Returns rows × lanes × features without gaps.
  std::vector<T> tight() {
    std::vector<T> result;
    for_each([&](T& value) { result.push_back(value); });
    return result;
  }
  std::vector<double> numbers() {
    std::vector<double> result;
    for (const T value : tight()) result.push_back(static_cast<V>(value));
    return result;
  }
  void expect_gaps_untouched(const char* name) const {
    const auto untouched = std::count_if(values.begin(), values.end(), [](T value) {
      return static_cast<V>(value) == static_cast<V>(kUntouched);
    });
    EXPECT_GE(static_cast<std::size_t>(untouched), values.size() - rows * lanes * features) << name;
  }
};

/// A call of forward and backward with random data, and all its outputs.
template <typename S, typename B>
struct Case {
  using V = Arithmetic<S>;

  Shape shape;
  TorchGenerator generator{3};
  std::size_t mix_rows = shape.mixes == Mixes::kSame ? 1 : shape.rows;
  Tensor<S> x{shape, shape.n, generator}, d_sum{shape, shape.made(), generator};
  Tensor<B> branch{shape, shape.q, generator}, dy{shape, shape.k, generator};
  Tensor<S> sum{shape, shape.alone() ? 0 : shape.made()}, dx{shape, shape.n};
  Tensor<B> y{shape, shape.k}, d_branch{shape, shape.q};
  Matrix<V> carry = mix(shape.carried * shape.n), write = mix(shape.made() * shape.q);
  Matrix<V> read = mix(shape.k * shape.made());
  Matrix<V> d_carry{mix_rows, carry.cols()}, d_write{mix_rows, write.cols()};
  Matrix<V> d_read{mix_rows, read.cols()};
  std::vector<V> gamma = random_vector<V>(generator, shape.norm ? shape.features : 0, {1, 0.3});
  std::vector<V> beta = random_vector<V>(generator, shape.norm ? shape.features : 0);
  std::vector<V> d_gamma = std::vector<V>(gamma.size()), d_beta = d_gamma;
  std::vector<NormStatistics<V>> statistics =
      std::vector<NormStatistics<V>>(shape.norm ? shape.rows : 0);
  std::vector<V> workspace =
      std::vector<V>(lanes_workspace(shape.rows, std::max(shape.n, shape.made()), shape.features));
  GradientMode mode = GradientMode::kOverwrite;

  explicit Case(const Shape& s) : shape(s) {}

  Matrix<V> mix(std::size_t numbers) {
    Matrix<V> result(mix_rows, numbers);
    generator.fill_normal<V>(result.flat(), 0, 1);
    return result;
  }
  static MatrixView<V> present(Matrix<V>& mix) {
    return mix.cols() == 0 ? MatrixView<V>() : mix.view();
  }

  LanesForward<S, B> forward() {
    LanesForward<S, B> args{.x = x.view(),
                            .branch = branch.view(),
                            .carry = present(carry),
                            .write = present(write),
                            .dropout = {.probability = shape.dropout, .seed = 5, .offset = 3},
                            .sum = sum.view(),
                            .read = present(read),
                            .gamma = gamma,
                            .beta = beta,
                            .y = y.view(),
                            .statistics = statistics};
    if (shape.norm) args.norm = NormOptions{.kind = *shape.norm};
    return args;
  }
  LanesBackward<S, B> backward() {
    return {.forward = forward(),
            .d_sum = d_sum.view(),
            .dy = dy.view(),
            .dx = dx.view(),
            .d_branch = d_branch.view(),
            .d_carry = present(d_carry),
            .d_write = present(d_write),
            .d_read = present(d_read),
            .d_gamma = d_gamma,
            .d_beta = d_beta,
            .workspace = workspace,
            .parameter_gradients = mode};
  }
  void run(std::size_t threads = 0) {
    lanes_forward(forward(), threads);
    lanes_backward(backward(), threads);
  }

  /// Returns the numbers of a mix for each row; the identity if the mix is absent.
  std::vector<double> per_row(const Matrix<V>& mix, bool identity = false) const {
    std::vector<double> all;
    for (std::size_t r = 0; r < shape.rows; ++r) {
      for (std::size_t i = 0; identity && i < shape.n * shape.n; ++i) {
        all.push_back(i % (shape.n + 1) == 0 ? 1 : 0);
      }
      const auto row = mix.view().row(mix_rows == 1 ? 0 : r);
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }
  reference::Lanes reference() {
    reference::Lanes lanes{.rows = shape.rows,
                           .features = shape.features,
                           .x_lanes = shape.n,
                           .branch_lanes = shape.q,
                           .made_lanes = shape.made(),
                           .reads = shape.k,
                           .x = x.numbers(),
                           .branch = branch.numbers(),
                           .mask = {},
                           .carry = per_row(carry, shape.carried == 0),
                           .write = per_row(write),
                           .read = per_row(read),
                           .norm = forward().norm,
                           .gamma = to_double(gamma),
                           .beta = to_double(beta)};
    for (std::size_t i = 0; i < lanes.branch.size(); ++i) {
      lanes.mask.push_back(dropout_factor<V>(forward().dropout, i));
    }
    return lanes;
  }
  /// Returns a reference's gradient of a mix in this case's form: for each row, or the sum.
  std::vector<double> as_mix(const std::vector<double>& of_rows) const {
    if (mix_rows == shape.rows) return of_rows;
    std::vector<double> total(of_rows.size() / shape.rows);
    for (std::size_t i = 0; i < of_rows.size(); ++i) total[i % total.size()] += of_rows[i];
    return total;
  }

  /// Returns all bytes of the outputs, without the gaps.
  std::string bytes() {
    std::string all;
    const auto append = [&](const auto& values) {
      all.append(reinterpret_cast<const char*>(&*values.begin()),
                 values.size() * sizeof(values[0]));
    };
    append(sum.tight()), append(y.tight()), append(dx.tight()), append(d_branch.tight());
    append(d_carry.flat()), append(d_write.flat()), append(d_read.flat());
    append(d_gamma), append(d_beta), append(statistics);
    return all;
  }
};

template <typename S, typename B>
struct Pair {
  using Stream = S;
  using Branch = B;
};
template <typename P>
class Lanes : public ::testing::Test {
 public:
  using CaseOf = Case<typename P::Stream, typename P::Branch>;
};
using Storages =
    ::testing::Types<Pair<float, float>, Pair<double, double>, Pair<BFloat16, BFloat16>,
                     Pair<Float16, Float16>, Pair<float, BFloat16>, Pair<float, Float16>>;
TYPED_TEST_SUITE(Lanes, Storages);

template <typename T>
constexpr double kRounding = std::is_same_v<T, BFloat16>  ? 0x1p-8
                             : std::is_same_v<T, Float16> ? 0x1p-11
                             : std::is_same_v<T, float>   ? 0x1p-24
                                                          : 0x1p-53;

/// X′ and each result are rounded once to their type; the sums have about 64 roundings. The error
/// of the mixes' gradients is compared with the size of their terms, about 1 for each feature,
/// because the part that a norm does not see cancels.
template <typename S, typename B>
void expect_equals_reference(Case<S, B>& c) {
  SCOPED_TRACE(c.shape.text());
  c.run();
  const reference::Lanes lanes = c.reference();
  const auto out = lanes_forward(lanes);
  const auto grad = lanes_backward(lanes, c.d_sum.numbers(), c.dy.numbers());
  const double tolerance = 64 * kRounding<Arithmetic<S>> + 8 * kRounding<S> + 2 * kRounding<B>;
  const auto expect_near = [&](const auto& actual, const std::vector<double>& expected,
                               const char* name, double least = 1) {
    EXPECT_LE(relative_error(actual, expected, least), tolerance) << name;
  };
  const auto terms = static_cast<double>(c.shape.features);
  if (!c.shape.alone()) expect_near(c.sum.numbers(), out.sum, "sum");
  expect_near(c.y.numbers(), out.y, "y");
  expect_near(c.dx.numbers(), grad.dx, "dx");
  expect_near(c.d_branch.numbers(), grad.d_branch, "d_branch");
  if (c.shape.carried > 0) expect_near(c.d_carry.flat(), c.as_mix(grad.d_carry), "d_carry", terms);
  expect_near(c.d_write.flat(), c.as_mix(grad.d_write), "d_write", terms);
  expect_near(c.d_read.flat(), c.as_mix(grad.d_read), "d_read", terms);
  if (c.shape.norm) {
    expect_near(c.d_gamma, grad.d_gamma, "d_gamma");
    expect_near(c.d_beta, grad.d_beta, "d_beta");
  }
  c.sum.expect_gaps_untouched("sum");
  c.y.expect_gaps_untouched("y");
  c.dx.expect_gaps_untouched("dx");
  c.d_branch.expect_gaps_untouched("d_branch");
}

TYPED_TEST(Lanes, EqualTheReferenceForAnyShape) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Shape shape = any_shape(seed);
    // With few values the deviation may be small compared with the 16-bit rounding error of X′.
    if (sizeof(typename TypeParam::Stream) == 2) shape.features += 30;
    typename TestFixture::CaseOf c(shape);
    expect_equals_reference(c);
  }
}

// Rows that do not fit the staging buffers, with X′ and with a read alone; and reads over many
// layers.
TYPED_TEST(Lanes, EqualTheReferenceOfWideRowsAndManyLanes) {
  const Shape shapes[] = {
      {.rows = 2, .features = 17000, .n = 2, .carried = 3},
      {.rows = 2, .features = 17000, .n = 2, .carried = 3, .norm = NormKind::kRms, .dropout = 0.2},
      {.rows = 2, .features = 9000, .n = 4, .carried = 4, .mixes = Mixes::kPerRow},
      {.rows = 2, .features = 17000, .n = 3, .q = 0, .carried = 0},
      {.rows = 3, .features = 1500, .n = 4, .q = 2, .k = 3, .norm = {}},
      {.rows = 6,
       .features = 300,
       .n = 200,
       .q = 0,
       .carried = 0,
       .mixes = Mixes::kPerRow,
       .layout = Layout::kLaneByLane},
      {.rows = 2, .features = 1100, .n = 200, .q = 0, .carried = 0, .k = 5, .norm = {}}};
  for (const Shape& shape : shapes) {
    typename TestFixture::CaseOf c(shape);
    expect_equals_reference(c);
  }
}

/// With all mixes 1, one lane is Add & Norm.
template <typename S, typename B>
void expect_add_norm(const NormOptions& options, Case<S, B>& c) {
  using V = Arithmetic<S>;
  for (Matrix<V>* mix : {&c.carry, &c.write, &c.read}) mix->fill(1);
  LanesBackward<S, B> args = c.backward();
  args.forward.norm = options;
  lanes_forward(args.forward);
  lanes_backward(args);

  Case<S, B> other(c.shape);
  const ResidualAdd<S, B> add{.x = other.x.view().lane(0),
                              .branch = other.branch.view().lane(0),
                              .dropout = args.forward.dropout};
  other.x.values = c.x.values;
  add_norm_forward<S, B>(options, {.add = add,
                                   .sum = other.sum.view().lane(0),
                                   .gamma = other.gamma,
                                   .beta = other.beta,
                                   .y = other.y.view().lane(0),
                                   .statistics = other.statistics});
  add_norm_backward<S, B>(options, {.s = other.sum.view().lane(0),
                                    .statistics = other.statistics,
                                    .gamma = other.gamma,
                                    .dy = other.dy.view().lane(0),
                                    .d_residual = other.d_sum.view().lane(0),
                                    .dx = other.dx.view().lane(0),
                                    .d_gamma = other.d_gamma,
                                    .d_beta = other.d_beta,
                                    .workspace = other.workspace,
                                    .parameter_gradients = GradientMode::kOverwrite});
  EXPECT_TRUE(same_bits(c.sum.values, other.sum.values));
  EXPECT_TRUE(same_bits(c.y.values, other.y.values));
  EXPECT_TRUE(same_bits(c.statistics, other.statistics));
  EXPECT_TRUE(same_bits(c.dx.values, other.dx.values));
  EXPECT_TRUE(same_bits(c.d_gamma, other.d_gamma));
  EXPECT_TRUE(same_bits(c.d_beta, other.d_beta));
}

TYPED_TEST(Lanes, OfOneAreAddNorm) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    for (const std::size_t features : {1, 3, 16, 31, 64, 100, 1024, 1025, 4096, 16385}) {
      for (const double dropout : {0.0, 0.3}) {
        const Shape shape{.rows = 40,
                          .features = features,
                          .n = 1,
                          .carried = 1,
                          .norm = kind,
                          .dropout = dropout};
        SCOPED_TRACE(shape.text());
        typename TestFixture::CaseOf c(shape);
        const auto x = c.x.view().lane(0);
        using S = typename TypeParam::Stream;
        // The values must be finite: the sign of a NaN is not specified.
        constexpr float kLarge = std::is_same_v<S, Float16> ? 1e4F : 1e30F;
        for (std::size_t i = 0; i < features; ++i) {
          x(3, i) = S(100.0F + static_cast<float>(i % 3) / 8);  // far from 0
          x(5, i) = S(static_cast<float>(x(5, i)) * kLarge);    // scaled
          x(7, i) = S(i == features - 1 ? 1.0F : 1000.0F);      // the head differs from the rest
          x(9, i) = S(0.0F);
        }
        expect_add_norm({.kind = kind}, c);
        expect_add_norm({.kind = kind,
                         .epsilon = 0.25,
                         .epsilon_at = EpsilonAt::kDeviation,
                         .gamma_form = GammaForm::kOnePlus,
                         .output_scale = 0.7},
                        c);
      }
    }
  }
}

/// Runs `body` on every instruction set, with 1, 2, 3 and 8 threads, with a last-level cache that
/// holds nothing and one that holds everything.
template <typename Body>
void everywhere(const Body& body) {
  const std::string usual(instruction_set());
  for (const std::string& name : all_instruction_sets()) {
    for (const std::size_t threads : {1, 2, 3, 8}) {
      use_instruction_set(name);
      use_caches(threads % 2 == 0 ? 1 : std::size_t{1} << 40);
      SCOPED_TRACE(fmt::format("{} on {} threads", name, threads));
      body(threads);
      use_this_machine();
    }
  }
  use_instruction_set(usual);
}

TYPED_TEST(Lanes, GiveTheSameBitsOnEveryInstructionSetAndForAnyThreads) {
  std::vector<Shape> shapes{
      {.rows = 70, .features = 1024, .n = 4},
      {.rows = 70, .features = 512, .n = 2, .carried = 2, .mixes = Mixes::kPerRow},
      {.rows = 5, .features = 17000, .n = 2, .carried = 2}};
  for (std::uint64_t seed = 100; seed < 112; ++seed) shapes.push_back(any_shape(seed));
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(shape.text());
    typename TestFixture::CaseOf first(shape);
    first.run();
    everywhere([&](std::size_t threads) {
      typename TestFixture::CaseOf other(shape);
      other.run(threads);
      EXPECT_TRUE(other.bytes() == first.bytes());
    });
  }
}

TYPED_TEST(Lanes, GiveARowTheSameBitsWhereverItStands) {
  for (std::uint64_t seed = 200; seed < 230; ++seed) {
    Shape shape = any_shape(seed);
    shape.dropout = 0;  // its masks depend on the place
    SCOPED_TRACE(shape.text());
    typename TestFixture::CaseOf all(shape), apart(shape);
    all.run();
    for (std::size_t r = 0; r < shape.rows; ++r) {
      auto args = apart.backward();
      const auto lanes = [&](auto& view) {
        view.data = view.data == nullptr ? nullptr : view.data + r * view.row_stride;
        view.rows = view.data == nullptr ? 0 : 1;
      };
      const auto mix = [&](auto& view) {
        if (shape.mixes == Mixes::kSame || view.data == nullptr) return;
        view.data += r * view.stride;
        view.rows = 1;
      };
      lanes(args.forward.x), lanes(args.forward.branch), lanes(args.forward.sum);
      lanes(args.forward.y), lanes(args.d_sum), lanes(args.dy), lanes(args.dx),
          lanes(args.d_branch);
      mix(args.forward.carry), mix(args.forward.write), mix(args.forward.read);
      args.d_carry = args.d_write = args.d_read = {};
      args.d_gamma = args.d_beta = {};
      if (shape.norm) args.forward.statistics = args.forward.statistics.subspan(r, 1);
      lanes_forward(args.forward);
      lanes_backward(args);
    }
    EXPECT_TRUE(same_bits(apart.sum.values, all.sum.values));
    EXPECT_TRUE(same_bits(apart.y.values, all.y.values));
    EXPECT_TRUE(same_bits(apart.dx.values, all.dx.values));
    EXPECT_TRUE(same_bits(apart.d_branch.values, all.d_branch.values));
  }
}

TYPED_TEST(Lanes, GiveTheSameBitsInAnyLayoutAndWithTheNumbersOfMixesRepeated) {
  for (std::uint64_t seed = 300; seed < 320; ++seed) {
    Shape shape = any_shape(seed);
    shape.mixes = Mixes::kSame;
    shape.layout = Layout::kRowByRow;
    SCOPED_TRACE(shape.text());
    typename TestFixture::CaseOf c(shape);
    c.run();
    Shape other_shape = shape;
    other_shape.layout = Layout::kLaneByLane;
    other_shape.gap = 5;
    typename TestFixture::CaseOf other(other_shape);
    other.run();
    EXPECT_TRUE(other.bytes() == c.bytes());

    other_shape.mixes = Mixes::kPerRow;
    typename TestFixture::CaseOf repeated(other_shape);
    repeated.x.values = other.x.values, repeated.branch.values = other.branch.values;
    repeated.d_sum.values = other.d_sum.values, repeated.dy.values = other.dy.values;
    repeated.gamma = other.gamma, repeated.beta = other.beta;
    for (const auto mix :
         {&TestFixture::CaseOf::carry, &TestFixture::CaseOf::write, &TestFixture::CaseOf::read}) {
      for (std::size_t r = 0; r < shape.rows; ++r) {
        std::ranges::copy((other.*mix).flat(), (repeated.*mix).view().row(r).begin());
      }
    }
    repeated.run();
    EXPECT_TRUE(same_bits(repeated.sum.values, other.sum.values));
    EXPECT_TRUE(same_bits(repeated.y.values, other.y.values));
    EXPECT_TRUE(same_bits(repeated.dx.values, other.dx.values));
    EXPECT_TRUE(same_bits(repeated.d_branch.values, other.d_branch.values));
  }
}

TYPED_TEST(Lanes, OutputsMayBeTheInputsThatTheHeaderNames) {
  for (std::uint64_t seed = 400; seed < 430; ++seed) {
    Shape shape = any_shape(seed);
    shape.layout = Layout::kLaneByLane;  // so that other numbers of lanes have the same strides
    for (const bool past_caches : {false, true}) {
      SCOPED_TRACE(shape.text());
      use_caches(past_caches ? 1 : std::size_t{1} << 40);
      typename TestFixture::CaseOf c(shape);
      c.run();
      typename TestFixture::CaseOf in(shape);
      auto args = in.backward();
      const auto over = [](auto& input, auto& output, std::size_t lanes) {
        if (lanes == 0 || input.lanes == 0) return;
        if (output.values.size() < input.values.size()) output.values.resize(input.values.size());
        std::ranges::copy(input.values, output.values.begin());
      };
      over(in.x, in.sum, in.sum.lanes), over(in.branch, in.y, in.y.lanes);
      over(in.d_sum, in.dx, in.dx.lanes), over(in.dy, in.d_branch, in.d_branch.lanes);
      if (in.sum.lanes > 0) {
        args.forward.sum.data = in.sum.values.data();
        args.forward.x.data = in.sum.values.data();
      }
      if (in.branch.lanes > 0 && in.y.lanes > 0) {
        args.forward.y.data = in.y.values.data();
        args.forward.branch.data = in.y.values.data();
      }
      lanes_forward(args.forward);
      args.forward.x = in.x.view();
      args.forward.branch = in.branch.view();
      args.dx.data = in.dx.values.data();
      args.d_sum.data = in.dx.values.data();
      if (in.d_branch.lanes > 0 && in.dy.lanes > 0) {
        args.d_branch.data = in.d_branch.values.data();
        args.dy.data = in.d_branch.values.data();
      }
      lanes_backward(args);
      use_this_machine();
      const auto expect_same = [](auto& a, auto& b, const char* name) {
        EXPECT_TRUE(same_bits(a.tight(), b.tight())) << name;
      };
      expect_same(in.sum, c.sum, "sum"), expect_same(in.y, c.y, "y");
      expect_same(in.dx, c.dx, "dx"), expect_same(in.d_branch, c.d_branch, "d_branch");
      EXPECT_TRUE(same_bits(in.d_carry.flat(), c.d_carry.flat()));
      EXPECT_TRUE(same_bits(in.d_write.flat(), c.d_write.flat()));
      EXPECT_TRUE(same_bits(in.d_read.flat(), c.d_read.flat()));
    }
  }
}

TYPED_TEST(Lanes, KeepNaNInItsRow) {
  using S = typename TypeParam::Stream;
  for (std::uint64_t seed = 500; seed < 520; ++seed) {
    Shape shape = any_shape(seed);
    shape.rows = 9;
    shape.mixes = Mixes::kPerRow;
    SCOPED_TRACE(shape.text());
    for (const float bad : {NAN, INFINITY}) {
      typename TestFixture::CaseOf c(shape), other(shape);
      c.run();
      other.x.view().lane(shape.n - 1)(4, shape.features - 1) = S(bad);
      other.run();
      const auto expect_rows = [&](auto& a, auto& b, const char* name) {
        for (std::size_t i = 0; i < a.lanes; ++i) {
          for (std::size_t r = 0; r < shape.rows; ++r) {
            if (r == 4) continue;
            EXPECT_TRUE(same_bits(a.view().lane(i).row(r), b.view().lane(i).row(r))) << name << r;
          }
        }
      };
      expect_rows(other.sum, c.sum, "sum"), expect_rows(other.y, c.y, "y");
      expect_rows(other.dx, c.dx, "dx"), expect_rows(other.d_branch, c.d_branch, "d_branch");
      if (!shape.norm) continue;
      for (const auto value : other.y.view().lane(0).row(4)) {
        EXPECT_TRUE(std::isnan(static_cast<Arithmetic<S>>(value)));
      }
    }
  }
}

TEST(LanesGradient, IsAddedToWhatIsThereUnlessItReplacesIt) {
  for (const Mixes mixes : {Mixes::kSame, Mixes::kPerRow}) {
    Case<float, float> once({.rows = 70, .mixes = mixes}), twice({.rows = 70, .mixes = mixes});
    once.run();
    twice.mode = GradientMode::kAccumulate;
    const auto each = [](Case<float, float>& c) {
      return std::vector<std::span<float>>{c.d_carry.flat(), c.d_write.flat(), c.d_read.flat(),
                                           c.d_gamma, c.d_beta};
    };
    for (const std::span<float> gradient : each(twice)) std::ranges::fill(gradient, 0.0F);
    twice.run();
    twice.run();
    for (std::size_t i = 0; i < each(once).size(); ++i) {
      std::vector<double> doubled = to_double(each(once)[i]);
      for (double& value : doubled) value *= 2;
      EXPECT_LE(relative_error(each(twice)[i], doubled), 1e-6) << i;
    }
  }
}

TEST(LanesGradient, EqualsCentralDifferences) {
  for (std::uint64_t seed = 600; seed < 640; ++seed) {
    Shape shape = any_shape(seed);
    shape.rows = 3;
    shape.features = 2 + seed % 11;
    shape.gap = 0;
    SCOPED_TRACE(shape.text());
    Case<double, double> c(shape);
    c.run();
    const auto loss = [&] {
      lanes_forward(c.forward());
      const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
        return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
      };
      // Without a separate sum X′ = X.
      return dot(shape.alone() ? c.x.values : c.sum.values, c.d_sum.values) +
             dot(c.y.values, c.dy.values);
    };
    const auto expect_gradient = [&](std::span<double> values, std::span<const double> gradient,
                                     const char* name) {
      EXPECT_LE(gradient_error(values, gradient, loss, 16), 1e-7) << name;
    };
    expect_gradient(c.x.values, c.dx.values, "x");
    expect_gradient(c.branch.values, c.d_branch.values, "branch");
    expect_gradient(c.carry.flat(), c.d_carry.flat(), "carry");
    expect_gradient(c.write.flat(), c.d_write.flat(), "write");
    expect_gradient(c.read.flat(), c.d_read.flat(), "read");
    expect_gradient(c.gamma, c.d_gamma, "gamma");
    expect_gradient(c.beta, c.d_beta, "beta");
  }
}

TEST(LanesGradient, OfAbsentGradientsIsThatOfZeros) {
  Case<float, float> zeros({}), absent({});
  zeros.d_sum.for_each([](float& value) { value = 0; });
  zeros.run();
  lanes_forward(absent.forward());
  LanesBackward<float> args = absent.backward();
  args.d_sum = {};
  args.d_branch = {};
  args.d_carry = {};
  args.d_gamma = {};
  lanes_backward(args);
  EXPECT_TRUE(same_bits(absent.dx.values, zeros.dx.values));
  EXPECT_TRUE(same_bits(absent.d_write.flat(), zeros.d_write.flat()));
  EXPECT_TRUE(same_bits(absent.d_read.flat(), zeros.d_read.flat()));
  EXPECT_TRUE(same_bits(absent.d_beta, zeros.d_beta));
}

TEST(LanesForward, CopiesWhatIsReadAlone) {
  Case<float, float> c({.q = 0, .carried = 0});
  Tensor<float> copy(c.shape, c.shape.n);
  LanesForward<float> args = c.forward();
  args.sum = copy.view();
  lanes_forward(args);
  const std::vector<float> y = c.y.values;
  EXPECT_EQ(copy.values, c.x.values);
  args.sum = c.x.view();  // where X already is
  lanes_forward(args);
  EXPECT_TRUE(same_bits(c.y.values, y));
  EXPECT_EQ(copy.values, c.x.values);
}

/// −0·1 is −0, and sums of −0 are −0 unless something else is added.
TEST(LanesForward, AddsNoZeroToProducts) {
  for (const std::size_t n : {1, 2, 4, 9, 16, 40}) {
    for (const bool carries : {false, true}) {
      if (carries && n > 16) continue;
      SCOPED_TRACE(fmt::format("{} lanes, carried {}", n, carries));
      Case<float, float> c({.n = n, .q = 0, .carried = carries ? n : 0, .norm = std::nullopt});
      c.carry.fill(1);
      c.read.fill(1);
      c.x.for_each([](float& value) { value = -0.0F; });
      c.dy.for_each([](float& value) { value = -0.0F; });
      LanesBackward<float> args = c.backward();
      args.d_sum = {};
      lanes_forward(c.forward());
      lanes_backward(args);
      for (const float y : c.y.values) ASSERT_TRUE(y == 0 && std::signbit(y));
      for (const float dx : c.dx.values) ASSERT_TRUE(dx == 0 && std::signbit(dx));
    }
  }
}

/// Non-temporal stores need aligned lanes, not only aligned rows.
TEST(LanesForward, MayHaveRowsThatBeginLinesAndLanesThatDoNot) {
  constexpr std::size_t kRows = 5, kLanes = 4, kFeatures = 32, kLane = 36;
  static_assert(kLanes * kLane * sizeof(float) % 64 == 0 && kLane * sizeof(float) % 64 != 0);
  TorchGenerator generator{7};
  Matrix<float> x = testing::random_matrix<float>(generator, kRows, kLanes * kLane);
  Matrix<float> d_sum = testing::random_matrix<float>(generator, kRows, kLanes * kLane);
  Matrix<float> branch = testing::random_matrix<float>(generator, kRows, kFeatures);
  Matrix<float> carry = testing::random_matrix<float>(generator, 1, kLanes * kLanes);
  Matrix<float> mix = testing::random_matrix<float>(generator, 1, kLanes);
  const auto run = [&](std::size_t last_level) {
    use_caches(last_level);
    Matrix<float> sum(kRows, kLanes * kLane), dx(kRows, kLanes * kLane);
    Matrix<float> y(kRows, kFeatures), d_branch(kRows, kFeatures);
    const auto lanes = [&](Matrix<float>& values) {
      return LanesView<float>{values.data(), kRows, kLanes, kFeatures, kLanes * kLane, kLane};
    };
    const auto one = [&](Matrix<float>& values) {
      return LanesView<float>{values.data(), kRows, 1, kFeatures};
    };
    const LanesForward<float> forward{.x = lanes(x),
                                      .branch = one(branch),
                                      .carry = carry.view(),
                                      .write = mix.view(),
                                      .sum = lanes(sum),
                                      .read = mix.view(),
                                      .y = one(y)};
    lanes_forward(forward);
    lanes_backward<float>({.forward = forward,
                           .d_sum = lanes(d_sum),
                           .dy = one(branch),
                           .dx = lanes(dx),
                           .d_branch = one(d_branch)});
    use_this_machine();
    std::vector<float> all;
    for (const Matrix<float>* result : {&sum, &y, &dx, &d_branch}) {
      const auto flat = result->flat();
      all.insert(all.end(), flat.begin(), flat.end());
    }
    return all;
  };
  EXPECT_TRUE(same_bits(run(64), run(std::size_t{1} << 40)));
}

TEST(LanesForward, TakesNoRows) {
  for (const Mixes mixes : {Mixes::kSame, Mixes::kPerRow}) {
    Case<float, float> c({.rows = 0, .mixes = mixes});
    c.d_gamma.assign(c.shape.features, 3);
    c.run();
    EXPECT_EQ(c.d_gamma, std::vector<float>(c.shape.features));
  }
}

/// The workspace holds the terms of all gradients with any numbers of lanes, and nothing is written
/// behind it. One value less is refused.
TEST(LanesWorkspace, IsAsLargeAsLanesWorkspaceSays) {
  constexpr std::size_t kGuards = 4096;
  for (const Shape& shape :
       {Shape{.n = 16, .q = 16, .carried = 16, .k = 16, .norm = std::nullopt},
        {.rows = 300, .n = 16, .q = 16, .carried = 16, .norm = NormKind::kLayer},
        {.n = 2, .q = 16, .carried = 16, .k = 16, .norm = std::nullopt},
        {.n = 16, .q = 1, .carried = 2, .k = 16, .norm = std::nullopt},
        {.n = 40, .q = 0, .carried = 0, .k = 16, .norm = std::nullopt}}) {
    SCOPED_TRACE(shape.text());
    Case<float, float> c(shape);
    const std::size_t size = c.workspace.size();
    c.workspace.resize(size + kGuards, 7.0F);
    LanesBackward<float> args = c.backward();
    args.workspace = args.workspace.first(size);
    lanes_forward(c.forward());
    lanes_backward(args);
    EXPECT_EQ(std::count(c.workspace.begin() + size, c.workspace.end(), 7.0F), kGuards);
    args.workspace = args.workspace.first(size - 1);
    EXPECT_THAT([&] { lanes_backward(args); },
                ThrowsMessage<Error>(HasSubstr(fmt::format(
                    "workspace has {} values, must have at least {}", size - 1, size))));
  }
}

struct Mistake {
  const char* message;
  std::function<void(LanesBackward<float>&)> make;
};

TEST(LanesErrors, NameTheArgumentThatIsWrong) {
  std::vector<float> three(3);
  Matrix<float> small(2, 2), many(7, 37 * 17), mix17(1, 17 * 4), mix68(1, 17);
  const Mistake of_both[] = {
      {"x has 0 lanes of 37 features", [](auto& a) { a.forward.x.lanes = 0; }},
      {"x has 0 lanes of 0 features", [](auto& a) { a.forward.x = {}; }},
      {"x is absent, must be 7 × 4 × 37", [](auto& a) { a.forward.x.data = nullptr; }},
      {"the row stride of x is 3", [](auto& a) { a.forward.x.row_stride = 3; }},
      {"the lane stride of x is 3", [](auto& a) { a.forward.x.lane_stride = 3; }},
      {"more than there is memory",
       [](auto& a) { a.forward.x.lane_stride = std::size_t{1} << 61; }},
      {"more than there is memory", [](auto& a) { a.forward.x.row_stride = std::size_t{1} << 61; }},
      {"carry has 3 columns, must have a multiple of the 4 lanes of x",
       [&](auto& a) { a.forward.carry.cols = 3; }},
      {"X′ has 17 lanes, must have at most 16", [&](auto& a) { a.forward.carry = mix17; }},
      {"x has 17 lanes, must have at most 16",
       [&](auto& a) {
         a.forward.x = {many.data(), 7, 17, 37};
         a.forward.carry = mix68;
       }},
      {"carry has 2 rows, must have 1 or 7",
       [&](auto& a) { a.forward.carry = MatrixView<float>(many.data(), 2, 16); }},
      {"carry is absent, must be 1 × 16", [](auto& a) { a.forward.carry.data = nullptr; }},
      {"write is 1 × 3, must be 1 × 4", [](auto& a) { a.forward.write.cols = 3; }},
      {"write is 0 × 0, must be 0 × 4", [](auto& a) { a.forward.write = {}; }},
      {"read has 3 columns, must have a multiple of the 4 lanes of X′",
       [](auto& a) { a.forward.read.cols = 3; }},
      {"branch is 2 × 1 × 2", [&](auto& a) { a.forward.branch = MatrixView<const float>(small); }},
      {"branch has 17 lanes",
       [&](auto& a) {
         a.forward.branch = {many.data(), 7, 17, 37};
       }},
      {"the dropout probability is 1,", [](auto& a) { a.forward.dropout.probability = 1; }},
      {"the dropout probability is nan", [](auto& a) { a.forward.dropout.probability = NAN; }},
      {"dropout takes a branch of one lane, there are 2",
       [&](auto& a) {
         a.forward.branch = {many.data(), 7, 2, 37};
         a.forward.write = MatrixView<float>(many.data(), 1, 8);
         a.forward.dropout.probability = 0.5;
       }},
      {"the norm is of kind batch, must be layer or rms",
       [](auto& a) { a.forward.norm->kind = NormKind::kBatch; }},
      {"a norm takes one read, there are 2",
       [&](auto& a) { a.forward.read = MatrixView<float>(many.data(), 1, 8); }},
      {"a norm takes one read, there are 0", [&](auto& a) { a.forward.read = {}; }},
      {"epsilon is -1", [](auto& a) { a.forward.norm->epsilon = -1; }},
      {"gamma has 3 values", [&](auto& a) { a.forward.gamma = three; }},
      {"gamma has 37 values, must have 0", [](auto& a) { a.forward.norm.reset(); }},
      {"beta has 3 values", [&](auto& a) { a.forward.beta = three; }},
      {"statistics has 1 values",
       [](auto& a) { a.forward.statistics = a.forward.statistics.first(1); }}};
  const Mistake of_forward[] = {
      {"sum is absent, must be 7 × 4 × 37", [](auto& a) { a.forward.sum = {}; }},
      {"sum is 7 × 3 × 37", [](auto& a) { a.forward.sum.lanes = 3; }},
      {"the lane stride of sum is 0, must be at least its 37 features",
       [](auto& a) { a.forward.sum.lane_stride = 0; }},
      {"x and sum overlap, but differ in first element, stride or type",
       [](auto& a) {
         a.forward.sum.data = const_cast<float*>(a.forward.x.data);
         a.forward.sum.row_stride = 37;  // the same memory, lane by lane
         a.forward.sum.lane_stride = 7 * 37;
       }},
      {"sum and y overlap, each needs memory of its own",
       [](auto& a) { a.forward.y.data = a.forward.sum.data; }},
      {"y is absent", [](auto& a) { a.forward.y = {}; }},
      {"there is a y, but no read", [](auto& a) {
         a.forward.read = {};
         a.forward.norm.reset();
         a.forward.gamma = a.forward.beta = {};
         a.forward.statistics = {};
       }}};
  const Mistake of_backward[] = {
      {"d_sum is 7 × 3 × 37", [](auto& a) { a.d_sum.lanes = 3; }},
      {"dy is absent", [](auto& a) { a.dy = {}; }},
      {"dx is absent, must be 7 × 4 × 37", [](auto& a) { a.dx = {}; }},
      {"the lane stride of dx is 0, must be at least its 37 features",
       [](auto& a) { a.dx.lane_stride = 0; }},
      {"d_sum and dx overlap, but differ in first element, stride or type",
       [](auto& a) {
         a.dx.data = const_cast<float*>(a.d_sum.data);
         a.dx.row_stride = 37;  // the same memory, lane by lane
         a.dx.lane_stride = 7 * 37;
       }},
      {"d_branch is 7 × 2 × 37", [](auto& a) { a.d_branch.lanes = 2; }},
      {"d_carry is 2 × 2", [&](auto& a) { a.d_carry = small; }},
      {"d_write is 2 × 2", [&](auto& a) { a.d_write = small; }},
      {"d_read is 2 × 2", [&](auto& a) { a.d_read = small; }},
      {"statistics has 0 values", [](auto& a) { a.forward.statistics = {}; }},
      {"d_gamma has 3 values", [&](auto& a) { a.d_gamma = three; }},
      {"d_beta has 3 values", [&](auto& a) { a.d_beta = three; }},
      {"workspace has 3 values, must have at least", [&](auto& a) { a.workspace = three; }}};
  const auto expect = [&](std::span<const Mistake> mistakes, const char* where, const auto& call) {
    for (const Mistake& mistake : mistakes) {
      Case<float, float> c({});
      LanesBackward<float> args = c.backward();
      mistake.make(args);
      EXPECT_THAT([&] { call(args); }, ThrowsMessage<Error>(HasSubstr(mistake.message)));
      EXPECT_THAT([&] { call(args); }, ThrowsMessage<Error>(HasSubstr(where)));
    }
  };
  const auto forward = [](const LanesBackward<float>& args) { lanes_forward(args.forward); };
  const auto backward = [](const LanesBackward<float>& args) { lanes_backward(args); };
  expect(of_both, "lanes_forward: ", forward);
  expect(of_both, "lanes_backward: ", backward);
  expect(of_forward, "lanes_forward: ", forward);
  expect(of_backward, "lanes_backward: ", backward);
}

}  // namespace
}  // namespace addnorm::kernels
