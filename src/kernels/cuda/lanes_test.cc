#include "addnorm/lanes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "addnorm/cuda.h"
#include "kernels/dropout.h"
#include "kernels/reference.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/random.h"

namespace addnorm::kernels::cuda {
namespace {

using testing::device_supports;
using testing::DeviceArray;
using testing::doubles;
using ::testing::HasSubstr;
using testing::random_vector;
using testing::same_bits;
using ::testing::ThrowsMessage;

struct Shape {
  std::size_t rows = 5, features = 40, lanes = 4;
  bool carries = true, writes = true, reads = true;
  std::optional<NormKind> norm = NormKind::kRms;
  bool mix_for_each_row = false;
  bool read_for_each_row = false;  ///< independent of the other mixes
  double dropout = 0;
  bool in_place = false;
};

/// One call of forward and backward on the device, with random data.
template <typename S, typename B>
struct Case {
  Shape shape;
  TorchGenerator generator{3};
  std::size_t n = shape.lanes;
  std::size_t mix_rows = shape.mix_for_each_row ? shape.rows : 1;
  std::size_t read_rows = shape.mix_for_each_row || shape.read_for_each_row ? shape.rows : 1;
  std::vector<S> x = stored<S>(n), d_sum = stored<S>(n);
  std::vector<B> branch = stored<B>(shape.writes ? 1 : 0), dy = stored<B>(shape.reads ? 1 : 0);
  std::vector<float> carry = numbers(shape.carries ? mix_rows * n * n : 0);
  std::vector<float> write = numbers(shape.writes ? mix_rows * n : 0);
  std::vector<float> read = numbers(shape.reads ? read_rows * n : 0);
  std::vector<float> gamma = random_vector<float>(generator, shape.features, {1, 0.3});
  std::vector<float> beta = numbers(shape.features);
  std::vector<S> sum, dx;
  std::vector<B> y, d_branch;
  std::vector<float> d_carry, d_write, d_read, d_gamma, d_beta;

  explicit Case(const Shape& s) : shape(s) {}

  template <typename T>
  std::vector<T> stored(std::size_t lanes) {
    std::vector<T> result;
    for (const float value : numbers(shape.rows * lanes * shape.features)) {
      result.push_back(static_cast<T>(value));
    }
    return result;
  }
  std::vector<float> numbers(std::size_t count) { return random_vector<float>(generator, count); }

  LanesForward<S, B> forward_on_host(std::vector<S>& sum_to, std::vector<B>& y_to) const {
    LanesForward<S, B> args{.x = {x.data(), shape.rows, n, shape.features},
                            .carry = mix(carry.data(), shape.carries, mix_rows, n * n),
                            .write = mix(write.data(), shape.writes, mix_rows, n),
                            .dropout = dropout(),
                            .sum = {sum_to.data(), shape.rows, n, shape.features},
                            .read = mix(read.data(), shape.reads, read_rows, n)};
    if (shape.writes) args.branch = {branch.data(), shape.rows, 1, shape.features};
    if (shape.reads) args.y = {y_to.data(), shape.rows, 1, shape.features};
    return args;
  }
  Dropout dropout() const { return {.probability = shape.dropout, .seed = 5, .offset = 3}; }
  static LaneMix<float> mix(const float* data, bool present, std::size_t rows, std::size_t count) {
    if (!present) return {};
    return {data, rows, count};
  }
  static MatrixView<float> gradient(const DeviceArray<float>& to, bool present, std::size_t rows) {
    if (!present) return {};
    return {to.data(), rows, to.size() / rows};
  }

  void run() {
    const std::size_t rows = shape.rows, features = shape.features;
    DeviceArray<S> x_in(x), sum_out(x.size()), d_sum_in(d_sum), dx_out(x.size());
    DeviceArray<B> branch_in(branch), y_out(dy.size()), dy_in(dy), d_branch_out(branch.size());
    DeviceArray<float> carry_in(carry), write_in(write), read_in(read), gamma_in(gamma),
        beta_in(beta);
    DeviceArray<NormStatistics<float>> statistics(rows);
    const auto lanes_of = [&](const auto& array, std::size_t lanes) {
      using T = std::remove_pointer_t<decltype(array.data())>;
      if (lanes == 0) return LanesView<T>();
      return LanesView<T>(array.data(), rows, lanes, features);
    };
    const std::size_t q = shape.writes ? 1 : 0, k = shape.reads ? 1 : 0;
    LanesForward<S, B> forward{.x = lanes_of(x_in, n),
                               .branch = lanes_of(branch_in, q),
                               .carry = mix(carry_in.data(), shape.carries, mix_rows, n * n),
                               .write = mix(write_in.data(), shape.writes, mix_rows, n),
                               .dropout = dropout(),
                               .sum = lanes_of(sum_out, n),
                               .read = mix(read_in.data(), shape.reads, read_rows, n),
                               .y = lanes_of(y_out, k)};
    if (shape.norm) {
      forward.norm = NormOptions{.kind = *shape.norm};
      forward.gamma = gamma_in.span(), forward.beta = beta_in.span();
      forward.statistics = statistics.span();
    }
    addnorm::cuda::lanes_forward(forward);
    sum = sum_out.values(), y = y_out.values();

    DeviceArray<float> d_carry_out(carry.size()), d_write_out(write.size()),
        d_read_out(read.size());
    DeviceArray<float> d_gamma_out(shape.norm ? features : 0),
        d_beta_out(shape.norm ? features : 0);
    DeviceArray<float> workspace(addnorm::cuda::lanes_workspace(rows, n, features));
    addnorm::cuda::lanes_backward<S, B>(
        {.forward = forward,
         .d_sum = lanes_of(d_sum_in, n),
         .dy = lanes_of(dy_in, k),
         .dx = lanes_of(shape.in_place ? d_sum_in : dx_out, n),
         .d_branch = lanes_of(shape.in_place && k == q ? dy_in : d_branch_out, q),
         .d_carry = gradient(d_carry_out, shape.carries, mix_rows),
         .d_write = gradient(d_write_out, shape.writes, mix_rows),
         .d_read = gradient(d_read_out, shape.reads, read_rows),
         .d_gamma = d_gamma_out.span(),
         .d_beta = d_beta_out.span(),
         .workspace = workspace.span(),
         .parameter_gradients = GradientMode::kOverwrite});
    dx = (shape.in_place ? d_sum_in : dx_out).values();
    d_branch = (shape.in_place && k == q ? dy_in : d_branch_out).values();
    d_carry = d_carry_out.values(), d_write = d_write_out.values(), d_read = d_read_out.values();
    d_gamma = d_gamma_out.values(), d_beta = d_beta_out.values();
  }

  std::vector<double> per_row(const std::vector<float>& mix, std::size_t count, std::size_t of,
                              bool identity = false) const {
    std::vector<double> all;
    for (std::size_t r = 0; r < shape.rows; ++r) {
      for (std::size_t i = 0; i < count; ++i) {
        all.push_back(identity ? i % (n + 1) == 0 : mix[(of == 1 ? 0 : r) * count + i]);
      }
    }
    return all;
  }
  /// Returns a gradient as each row's numbers, or as their sum.
  std::vector<double> as_mix(const std::vector<double>& of_rows, std::size_t rows) const {
    if (rows == shape.rows) return of_rows;
    std::vector<double> total(of_rows.size() / shape.rows);
    for (std::size_t i = 0; i < of_rows.size(); ++i) total[i % total.size()] += of_rows[i];
    return total;
  }

  void expect_equals_reference() {
    // X′ has the same bits as on the CPU.
    std::vector<S> cpu_sum(x.size());
    std::vector<B> cpu_y(dy.size());
    lanes_forward(forward_on_host(cpu_sum, cpu_y));
    EXPECT_TRUE(same_bits(sum, cpu_sum));

    reference::Lanes lanes{.rows = shape.rows,
                           .features = shape.features,
                           .x_lanes = n,
                           .branch_lanes = branch.empty() ? 0u : 1u,
                           .made_lanes = n,
                           .reads = dy.empty() ? 0u : 1u,
                           .x = doubles(x),
                           .branch = doubles(branch),
                           .mask = {},
                           .carry = per_row(carry, n * n, mix_rows, !shape.carries),
                           .write = per_row(write, branch.empty() ? 0 : n, mix_rows),
                           .read = per_row(read, dy.empty() ? 0 : n, read_rows),
                           .norm = {},
                           .gamma = doubles(gamma),
                           .beta = doubles(beta)};
    if (shape.norm) lanes.norm = NormOptions{.kind = *shape.norm};
    for (std::size_t i = 0; i < branch.size(); ++i) {
      lanes.mask.push_back(dropout_factor<float>(dropout(), i));
    }
    const auto out = reference::lanes_forward(lanes);
    const auto gradients = reference::lanes_backward(lanes, doubles(d_sum), doubles(dy));
    // 16-bit types round X′ and the results once each.
    const bool is_16_bit = sizeof(S) == 2;
    const double tolerance = is_16_bit || sizeof(B) == 2 ? 2e-2 : 4e-6;
    EXPECT_LE(testing::relative_error(doubles(y), out.y), tolerance);
    EXPECT_LE(testing::relative_error(doubles(dx), gradients.dx), tolerance);
    EXPECT_LE(testing::relative_error(doubles(d_branch), gradients.d_branch), tolerance);
    EXPECT_LE(testing::relative_error(d_carry, shape.carries ? as_mix(gradients.d_carry, mix_rows)
                                                             : std::vector<double>()),
              tolerance);
    EXPECT_LE(testing::relative_error(d_write, as_mix(gradients.d_write, mix_rows)), tolerance);
    // R·dR is almost 0 after a norm, so with few lanes dR may be a small remainder of its terms.
    const double terms = std::sqrt(static_cast<double>(x.size() / n));
    EXPECT_LE(testing::relative_error(d_read, as_mix(gradients.d_read, read_rows), terms),
              tolerance);
    EXPECT_LE(testing::relative_error(d_gamma, gradients.d_gamma), tolerance);
    EXPECT_LE(testing::relative_error(d_beta, gradients.d_beta), tolerance);
  }
};

template <typename Types>
class CudaLanes : public ::testing::Test {
 protected:
  using OneCase = Case<typename Types::Stream, typename Types::Branch>;
};
TYPED_TEST_SUITE(CudaLanes, testing::DeviceStorages);

TYPED_TEST(CudaLanes, EqualTheReferenceForEveryShape) {
  for (const std::size_t features :
       {7, 8, 9, 40, 64, 100, 256, 1000, 1024, 2048, 4096, 8192, 10000, 16384}) {
    for (const std::size_t rows : {1, 3, 40}) {
      for (const std::size_t lanes : {2, 4}) {
        if (rows * features > 50'000 || !device_supports(features, lanes)) continue;
        SCOPED_TRACE(fmt::format("{} × {} × {}", rows, lanes, features));
        typename TestFixture::OneCase c({.rows = rows, .features = features, .lanes = lanes});
        c.run();
        c.expect_equals_reference();
      }
    }
  }
}

TYPED_TEST(CudaLanes, EqualTheReferenceWhateverIsThere) {
  for (int choice = 0; choice < 128; ++choice) {
    SCOPED_TRACE(choice);
    Shape shape{.lanes = choice & 1 ? 4u : 2u,
                .carries = (choice & 2) != 0,
                .writes = (choice & 4) != 0,
                .reads = (choice & 8) != 0,
                .norm = {},
                .mix_for_each_row = (choice & 16) != 0,
                .read_for_each_row = (choice & 32) != 0,
                .in_place = (choice & 64) != 0};
    if (shape.reads && choice % 3 > 0)
      shape.norm = choice % 3 == 1 ? NormKind::kLayer : NormKind::kRms;
    for (const double dropout : {0.0, 0.3}) {
      if (dropout > 0 && !shape.writes) continue;
      shape.dropout = dropout;
      typename TestFixture::OneCase c(shape);
      c.run();
      c.expect_equals_reference();
    }
  }
}

TYPED_TEST(CudaLanes, GiveARowTheSameBitsInAnyBatchAndRun) {
  using C = typename TestFixture::OneCase;
  // The numbers of rows give each block several rows, one after the other.
  for (const auto& [rows, features] : {std::pair<std::size_t, std::size_t>{20'000, 64},
                                       {900, 1024},
                                       {300, 4096},
                                       {150, 8192},
                                       {70, 16384}}) {
    if (!device_supports(features, 4)) continue;
    SCOPED_TRACE(fmt::format("{} × {}", rows, features));
    C all({.rows = rows, .features = features});
    all.run();
    C again = all;
    again.run();
    EXPECT_TRUE(same_bits(all.y, again.y) && same_bits(all.dx, again.dx));
    EXPECT_TRUE(same_bits(all.d_gamma, again.d_gamma) && same_bits(all.d_carry, again.d_carry));
    EXPECT_TRUE(same_bits(all.d_read, again.d_read) && same_bits(all.d_write, again.d_write));
    for (const std::size_t r : {std::size_t{0}, rows / 2, rows - 1}) {
      C one({.rows = 1, .features = features});
      const std::size_t f = features;
      const auto row_of = [&, f](const auto& from, std::size_t lanes) {
        const auto begin = from.begin() + static_cast<std::ptrdiff_t>(r * lanes * f);
        return std::vector(begin, begin + static_cast<std::ptrdiff_t>(lanes * f));
      };
      one.gamma = all.gamma, one.beta = all.beta;
      one.carry = all.carry, one.write = all.write, one.read = all.read;
      one.x = row_of(all.x, 4), one.d_sum = row_of(all.d_sum, 4);
      one.branch = row_of(all.branch, 1), one.dy = row_of(all.dy, 1);
      one.run();
      EXPECT_TRUE(same_bits(one.y, row_of(all.y, 1))) << "row " << r;
      EXPECT_TRUE(same_bits(one.dx, row_of(all.dx, 4))) << "row " << r;
      EXPECT_TRUE(same_bits(one.d_branch, row_of(all.d_branch, 1))) << "row " << r;
    }
  }
}

TEST(CudaLanesGradient, IsZeroOfNoRows) {
  DeviceArray<float> d_gamma(8), d_carry(4), workspace(addnorm::cuda::lanes_workspace(0, 2, 8));
  const DeviceArray<float> numbers(std::vector<float>(4, 1.0F));
  float none = 0;
  const LanesView<float> x(&none, 0, 2, 8);
  const LanesView<float> y(&none, 0, 1, 8);
  addnorm::cuda::lanes_backward<float>({.forward = {.x = x,
                                                    .carry = {numbers.data(), 1, 4},
                                                    .read = {numbers.data(), 1, 2},
                                                    .norm = NormOptions{}},
                                        .dy = y,
                                        .dx = x,
                                        .d_carry = d_carry.matrix(1, 4),
                                        .d_gamma = d_gamma.span(),
                                        .workspace = workspace.span(),
                                        .parameter_gradients = GradientMode::kOverwrite});
  EXPECT_EQ(d_gamma.values(), std::vector<float>(8, 0.0F));
  EXPECT_EQ(d_carry.values(), std::vector<float>(4, 0.0F));
}

TEST(CudaLanesErrors, SayWhatIsNotThere) {
  float values[16] = {};
  const LanesView<float> three(values, 1, 3, 1);
  const float numbers[9] = {};
  EXPECT_THAT(
      [&] {
        addnorm::cuda::lanes_forward<float>({.x = three, .carry = {numbers, 1, 9}, .sum = three});
      },
      ThrowsMessage<Error>(HasSubstr("3 lanes of x and 3 of X′, must be 2 or 4 of both")));
}

}  // namespace
}  // namespace addnorm::kernels::cuda
