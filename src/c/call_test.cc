/// Tests the errors of the C interface, and the reading of structs of other versions.

#include "c/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "addnorm.h"
#include "base/require.h"

namespace addnorm {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StrEq;

constexpr std::size_t kRows = 3, kFeatures = 4;
constexpr std::size_t kHuge = std::numeric_limits<std::size_t>::max() / 8;

/// Valid arguments, which a test makes invalid.
struct Forward {
  std::vector<float> x = std::vector<float>(24, 1), f = x, sum = std::vector<float>(24, -7),
                     y = sum;
  std::vector<float> gamma = std::vector<float>(kRows * kFeatures, 1);
  std::vector<addnorm_statistics_f32> statistics = std::vector<addnorm_statistics_f32>(kRows);
  addnorm_norm_options norm = addnorm_norm(ADDNORM_LAYER_NORM);
  addnorm_add_norm_forward_args args = {.size = sizeof args,
                                        .rows = kRows,
                                        .features = kFeatures,
                                        .norm = &norm,
                                        .add = {.x = x.data(), .branch = f.data()},
                                        .sum = sum.data(),
                                        .gamma = gamma.data(),
                                        .y = y.data(),
                                        .statistics = statistics.data()};

  Forward() = default;
  Forward(const Forward&) = delete;
  Forward& operator=(const Forward&) = delete;
};

struct Backward {
  std::vector<float> s = std::vector<float>(24, 1), dy = s, dx = std::vector<float>(12, -7);
  std::vector<float> d_gamma = std::vector<float>(kFeatures, -7);
  std::vector<float> workspace = std::vector<float>(200);
  std::vector<addnorm_statistics_f32> statistics = std::vector<addnorm_statistics_f32>(kRows);
  addnorm_add_norm_backward_args args = {.size = sizeof args,
                                         .rows = kRows,
                                         .features = kFeatures,
                                         .s = s.data(),
                                         .statistics = statistics.data(),
                                         .dy = dy.data(),
                                         .dx = dx.data(),
                                         .d_gamma = d_gamma.data(),
                                         .workspace = workspace.data(),
                                         .workspace_size = workspace.size()};

  Backward() = default;
  Backward(const Backward&) = delete;
  Backward& operator=(const Backward&) = delete;
};

struct Channels {
  std::vector<float> x = std::vector<float>(25, 1), y = std::vector<float>(24, -7);
  // Enough values for other kinds of norm too; their arrays must not seem to overlap.
  std::vector<addnorm_statistics_f32> statistics = std::vector<addnorm_statistics_f32>(6);
  std::vector<float> workspace = std::vector<float>(100);
  addnorm_norm_options norm = addnorm_norm(ADDNORM_BATCH_NORM);
  addnorm_add_norm_forward_args args = {.size = sizeof args,
                                        .rows = 3,
                                        .features = 8,
                                        .norm = &norm,
                                        .add = {.x = x.data()},
                                        .y = y.data(),
                                        .statistics = statistics.data(),
                                        .positions = 4,
                                        .workspace = workspace.data(),
                                        .workspace_size = workspace.size()};

  Channels() = default;
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;
};

struct Running {
  std::vector<float> mean = std::vector<float>(2, -7), variance = mean;
  std::vector<addnorm_statistics_f32> statistics = std::vector<addnorm_statistics_f32>(2);
  addnorm_running_statistics_args args = {.size = sizeof args,
                                          .channels = 2,
                                          .mean = mean.data(),
                                          .variance = variance.data(),
                                          .statistics = statistics.data(),
                                          .count = 6};

  Running() = default;
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

template <typename Case>
struct Mistake {
  std::function<void(Case&)> make;
  std::string said;
};

/// Each mistake is rejected with its message, and without it the call succeeds.
template <typename Case, typename Call>
void expect_refused(const Call& call, const std::vector<Mistake<Case>>& mistakes) {
  Case right;
  EXPECT_EQ(call(&right.args), ADDNORM_OK) << addnorm_last_error();
  for (const Mistake<Case>& mistake : mistakes) {
    SCOPED_TRACE(mistake.said);
    Case spoilt;
    mistake.make(spoilt);
    EXPECT_EQ(call(&spoilt.args), ADDNORM_INVALID_ARGUMENT);
    EXPECT_THAT(addnorm_last_error(), HasSubstr(mistake.said));
  }
}

TEST(CErrors, OfForwardNameTheArgument) {
  expect_refused<Forward>(
      addnorm_add_norm_forward,
      {{[](auto& c) { c.args.dtype = 6; }, "add_norm_forward: dtype is 6, must be 0 to 5"},
       {[](auto& c) { c.args.dtype = -1; }, "dtype is -1"},
       {[](auto& c) { c.args.add.x = nullptr; }, "x is absent, must be 3 × 4"},
       {[](auto& c) { c.args.y = nullptr; }, "y is absent, must be 3 × 4"},
       {[](auto& c) { c.args.add.x_stride = 3; }, "the stride of x is 3, must be at least"},
       {[](auto& c) { c.args.rows = kHuge; }, "more than there is memory"},
       {[](auto& c) { c.args.features = kHuge; }, "more than there is memory"},
       {[](auto& c) { c.args.rows = 0, c.args.features = 8 * kHuge + 7 - 63; }, "more than there"},
       {[](auto& c) { c.args.y_stride = kHuge; }, "more than there is memory"},
       {[](auto& c) { c.args.features = 0; }, "no values to normalize"},
       {[](auto& c) { c.args.add.x = reinterpret_cast<char*>(c.x.data()) + 1; },
        "x is not aligned"},
       {[](auto& c) { c.args.gamma = reinterpret_cast<char*>(c.gamma.data()) + 2; },
        "gamma is not aligned to 4 bytes"},
       {[](auto& c) { c.args.add.skip = c.gamma.data(); }, "skip is not NULL, but its count is 0"},
       {[](auto& c) { c.args.add.gain_count = 1; }, "gain is NULL, but its count is 1"},
       {[](auto& c) { c.args.add.skip = c.x.data(), c.args.add.skip_count = 3; },
        "skip has 3 values, must have 4"},
       {[](auto& c) { c.args.add.dropout_probability = 1; }, "dropout probability is 1"},
       {[](auto& c) { c.args.add.dropout_probability = NAN; }, "dropout probability is nan"},
       {[](auto& c) { c.norm.kind = 7; }, "kind is 7, must be 0 to 6"},
       {[](auto& c) { c.norm.kind = ADDNORM_DYT, c.args.sum = nullptr; }, "sum is absent; dyt and"},
       {[](auto& c) { c.norm.kind = ADDNORM_DERF, c.norm.alpha = NAN; }, "alpha is nan"},
       {[](auto& c) { c.args.statistics_from = ADDNORM_STATISTICS_GIVEN; },
        "statistics are given, which is for kBatch alone"},
       {[](auto& c) { c.norm.epsilon_at = 2; }, "epsilon_at is 2"},
       {[](auto& c) { c.norm.variance = 2; }, "variance is 2"},
       {[](auto& c) { c.norm.gamma_form = 2; }, "gamma_form is 2"},
       {[](auto& c) { c.norm.epsilon = -2; }, "epsilon is -2"},
       {[](auto& c) { c.norm.output_scale = INFINITY; }, "output_scale is inf"},
       {[](auto& c) { c.norm.size = 12; }, "the size of norm is 12"}});
}

TEST(CErrors, OfOverlapsNameBoth) {
  expect_refused<Forward>(
      addnorm_add_norm_forward,
      {{[](auto& c) { c.args.y = c.sum.data(); },
        "sum and y overlap, each needs memory of its own"},
       {[](auto& c) { c.args.y = c.x.data() + 1; }, "x and y overlap, but differ in first element"},
       {[](auto& c) { c.args.y = c.x.data(), c.args.y_stride = 5; }, "x and y overlap, but differ"},
       {[](auto& c) { c.args.y = c.x.data() + 11; }, "x and y overlap"},
       {[](auto& c) { c.args.sum = c.gamma.data(); }, "gamma and sum overlap"},
       {[](auto& c) { c.args.statistics = c.y.data() + 8; }, "y and statistics overlap"},
       {[](auto& c) { c.args.dtype = ADDNORM_F32_BF16, c.args.y = c.x.data(); },
        "x and y overlap, but differ in first element, stride or type"}});
  expect_refused<Backward>(
      addnorm_add_norm_backward,
      {{[](auto& c) { c.args.dx = c.workspace.data() + 150; }, "dx and workspace overlap"},
       {[](auto& c) { c.args.d_beta = c.d_gamma.data(); }, "d_gamma and d_beta overlap"},
       {[](auto& c) { c.args.dx = c.dy.data() + 4; }, "dy and dx overlap"}});
  expect_refused<Channels>(
      addnorm_add_norm_forward,
      {{[](auto& c) { c.args.y = c.x.data() + 1; }, "x and y overlap, but differ"},
       {[](auto& c) { c.args.add.x = c.workspace.data() + 76; }, "x and workspace overlap"}});
}

TEST(CErrors, OfBackwardNameTheArgument) {
  expect_refused<Backward>(
      addnorm_add_norm_backward,
      {{[](auto& c) { c.args.s = nullptr; }, "s is absent"},
       {[](auto& c) { c.args.dy = nullptr; }, "dy is absent"},
       {[](auto& c) { c.args.dx = nullptr; }, "dx is absent"},
       {[](auto& c) { c.args.statistics = nullptr; }, "statistics has 0 values, must have 3"},
       {[](auto& c) { c.args.parameter_gradients = 2; }, "parameter_gradients is 2"},
       {[](auto& c) { c.args.workspace_size = 4; }, "workspace has 4 values"},
       {[](auto& c) { c.args.workspace = nullptr; }, "workspace is NULL, but its count is 200"}});
}

TEST(CErrors, OfChannelNormsNameTheArgument) {
  expect_refused<Channels>(
      addnorm_add_norm_forward,
      {{[](auto& c) { c.args.dtype = ADDNORM_BF16; }, "norms take float or double"},
       {[](auto& c) { c.args.add.x = nullptr; }, "x is absent"},
       {[](auto& c) { c.args.y = nullptr; }, "y is absent"},
       {[](auto& c) { c.args.statistics = nullptr; }, "statistics has 0 values, must have 2"},
       {[](auto& c) { c.args.positions = 3; },
        "add_norm_forward: positions is 3, must divide the 8 values"},
       {[](auto& c) { c.args.rows = c.args.features = kHuge; }, "more than there is memory"},
       {[](auto& c) { c.args.y_stride = 9; }, "the rows of y stand 9 values apart"},
       {[](auto& c) { c.args.workspace_size = 23; }, "workspace has 23 values"},
       {[](auto& c) { c.args.add.branch = c.x.data(); }, "sum is absent"},
       {[](auto& c) { c.norm.kind = ADDNORM_GROUP_NORM, c.norm.groups = 3; },
        "add_norm_forward: there are 3 groups, they must divide the 2 channels"}});
  expect_refused<Channels>(
      addnorm_add_norm_forward,
      {{[](auto& c) {
          c.norm.kind = ADDNORM_INSTANCE_NORM;
          c.args.statistics_from = ADDNORM_STATISTICS_GIVEN;
        },
        "statistics are given, which is for kBatch alone"},
       {[](auto& c) { c.args.statistics_from = 2; }, "statistics_from is 2, must be 0 to 1"}});
  expect_refused<Running>(
      addnorm_update_running_statistics,
      {{[](auto& c) { c.args.mean = nullptr; }, "mean, variance or statistics is NULL"},
       {[](auto& c) { c.args.statistics = nullptr; }, "mean, variance or statistics is NULL"},
       {[](auto& c) { c.args.count = 1; }, "at least 2 are needed"}});
}

TEST(CErrors, OfResidualAddNameTheArgument) {
  std::vector<float> x(12, 1), d(12, 1), d_skip(4);
  addnorm_residual_add_args add = {
      .size = sizeof add, .rows = kRows, .features = kFeatures, .add = {.x = x.data()}};
  EXPECT_EQ(addnorm_residual_add(&add), ADDNORM_INVALID_ARGUMENT);
  EXPECT_STREQ(addnorm_last_error(), "residual_add: sum is absent, must be 3 × 4");

  addnorm_residual_add_backward_args back = {.size = sizeof back,
                                             .rows = kRows,
                                             .features = kFeatures,
                                             .add = {.x = x.data()},
                                             .d_sum = d.data(),
                                             .d_skip = d_skip.data()};
  EXPECT_EQ(addnorm_residual_add_backward(&back), ADDNORM_INVALID_ARGUMENT);
  EXPECT_STREQ(addnorm_last_error(),
               "residual_add_backward: d_skip is not NULL, but its count is 0");
}

TEST(CErrors, LeaveTheOutputsAsTheyWere) {
  Forward c;
  c.args.add.gain_count = 1;
  EXPECT_EQ(addnorm_add_norm_forward(&c.args), ADDNORM_INVALID_ARGUMENT);
  EXPECT_THAT(c.sum, Each(-7));
  EXPECT_THAT(c.y, Each(-7));
}

TEST(CErrors, OfNullStructsAreNoCrash) {
  EXPECT_EQ(addnorm_residual_add(nullptr), ADDNORM_INVALID_ARGUMENT);
  EXPECT_STREQ(addnorm_last_error(), "residual_add: args is NULL");
  EXPECT_EQ(addnorm_residual_add_backward(nullptr), ADDNORM_INVALID_ARGUMENT);
  EXPECT_EQ(addnorm_add_norm_forward(nullptr), ADDNORM_INVALID_ARGUMENT);
  EXPECT_EQ(addnorm_add_norm_backward(nullptr), ADDNORM_INVALID_ARGUMENT);
  EXPECT_EQ(addnorm_update_running_statistics(nullptr), ADDNORM_INVALID_ARGUMENT);
  EXPECT_EQ(addnorm_running_to_norm_statistics(nullptr), ADDNORM_INVALID_ARGUMENT);
  EXPECT_EQ(addnorm_norm_sizes(nullptr, 1, 1, 1, nullptr, nullptr), ADDNORM_OK);  // LayerNorm
  EXPECT_EQ(addnorm_norm_sizes(nullptr, kHuge, kHuge, 1, nullptr, nullptr),
            ADDNORM_INVALID_ARGUMENT);
}

TEST(CErrors, BelongToTheirThread) {
  addnorm_residual_add(nullptr);
  std::thread([] {
    EXPECT_STREQ(addnorm_last_error(), "");
    addnorm_add_norm_forward(nullptr);
    EXPECT_THAT(addnorm_last_error(), HasSubstr("add_norm_forward"));
  }).join();
  EXPECT_STREQ(addnorm_last_error(), "residual_add: args is NULL");
}

TEST(CErrors, TellWhatWasThrown) {
  EXPECT_EQ(c::guarded([] { fail("a sentence"); }), ADDNORM_INVALID_ARGUMENT);
  EXPECT_STREQ(addnorm_last_error(), "a sentence");
  EXPECT_EQ(c::guarded([] { throw std::bad_alloc(); }), ADDNORM_OUT_OF_MEMORY);
  EXPECT_STREQ(addnorm_last_error(), "there is no memory left");
  EXPECT_EQ(c::guarded([] { throw std::logic_error("a mistake"); }), ADDNORM_INTERNAL_ERROR);
  EXPECT_STREQ(addnorm_last_error(), "a mistake");
  EXPECT_EQ(c::guarded([] { throw 1; }), ADDNORM_INTERNAL_ERROR);
  EXPECT_EQ(c::guarded([] { fail(std::string(10000, 'a')); }), ADDNORM_INVALID_ARGUMENT);
  EXPECT_THAT(addnorm_last_error(), StrEq(std::string(511, 'a')));
}

TEST(COverlap, ColumnsOfOneMatrixBesideEachOtherAreNone) {
  std::vector<float> both(kRows * 2 * kFeatures, 1);
  Forward c;
  c.args.add.x = both.data();
  c.args.y = both.data() + kFeatures;
  c.args.add.x_stride = c.args.y_stride = 2 * kFeatures;
  EXPECT_EQ(addnorm_add_norm_forward(&c.args), ADDNORM_OK) << addnorm_last_error();
  c.args.y = both.data() + kFeatures - 1;
  EXPECT_EQ(addnorm_add_norm_forward(&c.args), ADDNORM_INVALID_ARGUMENT);
  EXPECT_THAT(addnorm_last_error(), HasSubstr("x and y overlap"));
}

/// A size that ends before a field is that of an older version.
TEST(CStructs, OfOlderVersionsGetDefaults) {
  Forward c;
  c.args.size = offsetof(addnorm_add_norm_forward_args, statistics);
  EXPECT_EQ(addnorm_add_norm_forward(&c.args), ADDNORM_OK) << addnorm_last_error();
  EXPECT_EQ(c.statistics[0].reciprocal, 0);  // not written
  EXPECT_EQ(c.y[0], 0);                      // (2 − 2)/…

  c.norm = {.size = offsetof(addnorm_norm_options, epsilon),
            .kind = ADDNORM_RMS_NORM,
            .epsilon = NAN,
            .output_scale = NAN};
  EXPECT_EQ(addnorm_add_norm_forward(&c.args), ADDNORM_OK) << addnorm_last_error();
  EXPECT_EQ(c.y[0], 1);  // 2/√4: ε is 0
}

/// Norms of rows have γ and β for each feature, so they take any number of positions.
TEST(CNorms, OfRowsDoNotLookAtPositions) {
  for (const addnorm_norm_kind kind :
       {ADDNORM_LAYER_NORM, ADDNORM_RMS_NORM, ADDNORM_DYT, ADDNORM_DERF}) {
    const std::vector<float> x{1, -2, 3, 5, 0.5, -1, 7, 2}, gamma{1, 2, 3, 4}, beta{4, 3, 2, 1};
    const addnorm_norm_options norm = addnorm_norm(kind);
    const auto y_of = [&](std::size_t positions) {
      std::vector<float> y(8);
      const addnorm_add_norm_forward_args args{.size = sizeof args,
                                               .rows = 2,
                                               .features = 4,
                                               .norm = &norm,
                                               .add = {.x = x.data()},
                                               .gamma = gamma.data(),
                                               .beta = beta.data(),
                                               .y = y.data(),
                                               .positions = positions};
      EXPECT_EQ(addnorm_add_norm_forward(&args), ADDNORM_OK) << addnorm_last_error();
      return y;
    };
    EXPECT_EQ(y_of(2), y_of(1)) << kind;
    EXPECT_EQ(y_of(4), y_of(0)) << kind;
  }
}

TEST(CStructs, OfNewerVersionsAreTakenWhereTheyAskForNothingNew) {
  struct Newer {
    addnorm_add_norm_forward_args known;
    std::uint64_t unknown;
  };
  Forward c;
  Newer newer{c.args, 0};
  newer.known.size = sizeof newer;
  EXPECT_EQ(addnorm_add_norm_forward(&newer.known), ADDNORM_OK) << addnorm_last_error();
  EXPECT_EQ(c.y[0], 0);
  newer.unknown = 1;
  EXPECT_EQ(addnorm_add_norm_forward(&newer.known), ADDNORM_INVALID_ARGUMENT);
  EXPECT_THAT(addnorm_last_error(), HasSubstr("of a newer version, and byte"));
}

TEST(CStructs, OfImpossibleSizesAreRefused) {
  constexpr std::size_t kSize = sizeof(addnorm_add_norm_forward_args);
  for (const std::size_t size : {std::size_t{0}, std::size_t{4}, kSize - 1, kHuge}) {
    Forward c;
    c.args.size = size;
    EXPECT_EQ(addnorm_add_norm_forward(&c.args), ADDNORM_INVALID_ARGUMENT);
    EXPECT_EQ(addnorm_last_error(),
              fmt::format("add_norm_forward: the size of args is {}, must be its sizeof, here {}",
                          size, kSize));
  }
}

/// A size above that of any version is an uninitialized value, even if zeros follow the struct.
TEST(CStructs, OfMoreThanAnyVersionHasAreRefused) {
  Forward c;
  std::vector<std::byte> memory(8192);
  auto* const args = reinterpret_cast<addnorm_add_norm_forward_args*>(memory.data());
  std::memcpy(args, &c.args, sizeof c.args);
  args->size = 4096;
  EXPECT_EQ(addnorm_add_norm_forward(args), ADDNORM_OK) << addnorm_last_error();
  for (const std::size_t size : {4104, 8192}) {
    args->size = size;
    EXPECT_EQ(addnorm_add_norm_forward(args), ADDNORM_INVALID_ARGUMENT);
    EXPECT_THAT(addnorm_last_error(), HasSubstr(fmt::format("the size of args is {}", size)));
  }
}

TEST(CStructs, StatisticsAreThoseOfCpp) {
  EXPECT_EQ(sizeof(addnorm_statistics_f32), sizeof(NormStatistics<float>));
  EXPECT_EQ(sizeof(addnorm_statistics_f64), sizeof(NormStatistics<double>));
  std::vector<float> x{1, 2, 3, 4}, y(4);
  addnorm_statistics_f32 found;
  const addnorm_add_norm_forward_args args = {.size = sizeof args,
                                              .rows = 1,
                                              .features = 4,
                                              .add = {.x = x.data()},
                                              .y = y.data(),
                                              .statistics = &found};
  ASSERT_EQ(addnorm_add_norm_forward(&args), ADDNORM_OK) << addnorm_last_error();
  EXPECT_FLOAT_EQ((found.mean_hi + found.mean_lo) / found.scale, 2.5);
  EXPECT_FLOAT_EQ(found.variance, 1.25);
  EXPECT_FLOAT_EQ(1 / found.reciprocal / found.scale, std::sqrt(1.25F + 1e-5F));
  EXPECT_EQ(found.epsilon_ratio, 1);
}

TEST(CVersion, IsThatOfTheProject) {
  std::ifstream file(ADDNORM_SOURCE_DIR "/CMakeLists.txt");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::smatch parts;
  ASSERT_TRUE(std::regex_search(text, parts, std::regex(R"(VERSION ((\d+)\.(\d+)\.(\d+)))")));
  EXPECT_EQ(addnorm_version(), parts[1]);
  EXPECT_EQ(addnorm_version_number(),
            std::stoul(parts[2]) * 10000 + std::stoul(parts[3]) * 100 + std::stoul(parts[4]));
}

TEST(CInstructionSet, IsOneOfThoseDocumented) {
  EXPECT_THAT(addnorm_instruction_set(),
              ::testing::AnyOf(StrEq("avx512"), StrEq("avx2"), StrEq("sse4"), StrEq("neon"),
                               StrEq("scalar")));
}

}  // namespace
}  // namespace addnorm
