#include "kernels/argument_memory.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "addnorm/error.h"
#include "addnorm/matrix.h"

namespace addnorm::kernels::argument_memory_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

template <typename T>
std::set<const T*> elements(const LanesView<T>& view) {
  std::set<const T*> all;
  for (std::size_t r = 0; r < view.rows; ++r) {
    for (std::size_t i = 0; i < view.lanes; ++i) {
      for (std::size_t c = 0; c < view.features; ++c) {
        all.insert(view.data + r * view.row_stride + i * view.lane_stride + c);
      }
    }
  }
  return all;
}

TEST(Overlap, IsThatOfTheElements) {
  std::vector<float> memory(2000);
  std::mt19937 random(1);
  const auto draw = [&](std::size_t least, std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(least, most)(random);
  };
  const auto view = [&] {
    const std::size_t features = draw(0, 4), rows = draw(0, 4), lanes = draw(1, 3);
    const std::size_t near = features + draw(0, 2), far = near * draw(1, 4) + draw(0, 2);
    const bool rows_far = draw(0, 1) == 1;
    return LanesView<const float>(memory.data() + draw(0, 40), rows, lanes, features,
                                  rows_far ? far : near, rows_far ? draw(0, 1) * near : far);
  };
  std::size_t overlaps = 0, disjoint_between = 0;
  for (int i = 0; i < 100'000; ++i) {
    const LanesView<const float> a = view(), b = view();
    const std::set<const float*> of_a = elements(a), of_b = elements(b);
    const bool truth =
        std::ranges::any_of(of_a, [&](const float* element) { return of_b.contains(element); });
    const MemoryPiece p("a", a), q("b", b);
    if (p.begin == p.end || q.begin == q.end) {  // without elements, which a call ignores
      ASSERT_FALSE(truth);
      continue;
    }
    const bool between = p.begin < q.end && q.begin < p.end;
    ASSERT_EQ(between && overlap(p, q), truth)
        << i << ": " << a.data - memory.data() << " rows " << a.rows << "·" << a.row_stride
        << " lanes " << a.lanes << "·" << a.lane_stride << " of " << a.features << ", "
        << b.data - memory.data() << " rows " << b.rows << "·" << b.row_stride << " lanes "
        << b.lanes << "·" << b.lane_stride << " of " << b.features;
    overlaps += truth;
    disjoint_between += between && !truth;
  }
  EXPECT_GT(overlaps, 10'000U);
  EXPECT_GT(disjoint_between, 1'000U);
}

/// An output may have any layout in which no two of its elements have the same place.
TEST(Overlap, OfAnOutputWithItselfIsThatOfItsElements) {
  std::vector<float> memory(2000);
  std::mt19937 random(2);
  const auto below = [&](std::size_t n) { return random() % n; };
  std::size_t overlaps = 0, interleaved = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t features = 1 + below(6);
    const LanesView<float> view{memory.data(), 1 + below(4),         2 + below(4),
                                features,      features + below(24), features + below(24)};
    const std::size_t size = view.rows * view.lanes * view.features;
    const bool truth = elements(view).size() < size;
    ArgumentMemory arguments("call");
    bool is_refused = false;
    try {
      arguments.write("y", view);
    } catch (const Error&) {
      is_refused = true;
    }
    ASSERT_EQ(is_refused, truth) << i << ": rows " << view.rows << "·" << view.row_stride
                                 << " lanes " << view.lanes << "·" << view.lane_stride << " of "
                                 << features;
    overlaps += truth;
    interleaved += !truth && view.rows > 1 && view.row_stride < view.lanes * view.lane_stride &&
                   view.lane_stride < view.rows * view.row_stride;
  }
  EXPECT_GT(overlaps, 1'000U);
  EXPECT_GT(interleaved, 100U);
}

/// An argument of a call, and the functions to find and move it.
template <typename Args>
struct Slot {
  std::string name;
  std::function<void(Args&, float*)> move;
  std::size_t size;              ///< in float32
  std::set<std::string> may_be;  ///< for an output
  bool is_output;
};

/// Places each output at the last element of each other argument, so that one element overlaps, and
/// then at the same address. Expects an error that names both, or none if the call allows the
/// place.
template <typename Args, typename Call>
void expect_overlaps_refused(const char* where, const std::vector<Slot<Args>>& slots,
                             const Args& args, const Call& call) {
  constexpr std::size_t kRoom = 1024;
  std::vector<float> memory((slots.size() + 1) * kRoom);
  const auto place = [&](std::size_t i) { return memory.data() + i * kRoom; };
  Args apart = args;
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i].move(apart, place(i));
  ASSERT_NO_THROW(call(apart));
  for (std::size_t out = 0; out < slots.size(); ++out) {
    if (!slots[out].is_output) continue;
    for (std::size_t other = 0; other < slots.size(); ++other) {
      if (other == out) continue;
      SCOPED_TRACE(slots[out].name + " over " + slots[other].name);
      const auto refused =
          ThrowsMessage<Error>(AllOf(StartsWith(where), HasSubstr(" overlap"),
                                     HasSubstr(slots[out].name), HasSubstr(slots[other].name)));
      Args moved = apart;
      slots[out].move(moved, place(other) + slots[other].size - 1);
      EXPECT_THAT([&] { call(moved); }, refused);
      slots[out].move(moved, place(other));
      if (slots[out].may_be.contains(slots[other].name)) {
        EXPECT_NO_THROW(call(moved));
      } else {
        EXPECT_THAT([&] { call(moved); }, refused);
      }
    }
  }
}

constexpr std::size_t kRows = 3, kFeatures = 8, kSize = kRows * kFeatures;
using Statistics = NormStatistics<float>;
constexpr std::size_t kStatistics = kRows * sizeof(Statistics) / sizeof(float);

TEST(Overlaps, OfAnyOutputOfForwardAreErrors) {
  using Args = AddNormForward<float>;
  const std::set<std::string> inputs = {"x", "branch"};
  const std::vector<Slot<Args>> slots = {
      {"x",
       [](Args& a, float* to) {
         a.add.x = {to, kRows, kFeatures};
       },
       kSize},
      {"branch",
       [](Args& a, float* to) {
         a.add.branch = {to, kRows, kFeatures};
       },
       kSize},
      {"skip",
       [](Args& a, float* to) {
         a.add.skip.vector = {to, kFeatures};
       },
       kFeatures},
      {"gain",
       [](Args& a, float* to) {
         a.add.gain.vector = {to, kFeatures};
       },
       kFeatures},
      {"gamma",
       [](Args& a, float* to) {
         a.gamma = {to, kFeatures};
       },
       kFeatures},
      {"beta",
       [](Args& a, float* to) {
         a.beta = {to, kFeatures};
       },
       kFeatures},
      {"sum",
       [](Args& a, float* to) {
         a.sum = {to, kRows, kFeatures};
       },
       kSize, inputs, true},
      {"y",
       [](Args& a, float* to) {
         a.y = {to, kRows, kFeatures};
       },
       kSize, inputs, true},
      {"statistics",
       [](Args& a, float* to) {
         a.statistics = {reinterpret_cast<Statistics*>(to), kRows};
       },
       kStatistics,
       {},
       true}};
  expect_overlaps_refused<Args>("add_norm_forward: ", slots, {},
                                [](const Args& args) { add_norm_forward<float>({}, args); });
}

/// Batch norms have a workspace in forward, and squashing ones have α and a shift.
TEST(Overlaps, OfAnyOutputOfOtherNormsAreErrors) {
  using Args = AddNormForward<float>;
  const std::vector<Slot<Args>> common = {{"x",
                                           [](Args& a, float* to) {
                                             a.add.x = {to, kRows, kFeatures};
                                           },
                                           kSize},
                                          {"gamma",
                                           [](Args& a, float* to) {
                                             a.gamma = {to, kFeatures};
                                           },
                                           kFeatures},
                                          {"y",
                                           [](Args& a, float* to) {
                                             a.y = {to, kRows, kFeatures};
                                           },
                                           kSize,
                                           {"x"},
                                           true}};
  std::vector<Slot<Args>> batch = common, derf = common;
  batch.push_back({"statistics",
                   [](Args& a, float* to) {
                     a.statistics = {reinterpret_cast<Statistics*>(to), kFeatures};
                   },
                   kFeatures * sizeof(Statistics) / sizeof(float),
                   {},
                   true});
  batch.push_back({"workspace",
                   [](Args& a, float* to) {
                     a.workspace = {to, 500};
                   },
                   500,
                   {},
                   true});
  derf.push_back({"alpha", [](Args& a, float* to) { a.alpha = {to, 1}; }, 1});
  derf.push_back({"shift", [](Args& a, float* to) { a.shift = {to, 1}; }, 1});
  for (const auto& [kind, slots] : {std::pair(NormKind::kBatch, batch), {NormKind::kDerf, derf}}) {
    expect_overlaps_refused<Args>("add_norm_forward: ", slots, {}, [kind = kind](const Args& args) {
      add_norm_forward<float>({.kind = kind}, args);
    });
  }
}

TEST(Overlaps, OfAnyOutputOfBackwardAreErrors) {
  using Args = AddNormBackward<float>;
  const std::vector<Slot<Args>> slots = {
      {"s",
       [](Args& a, float* to) {
         a.s = {to, kRows, kFeatures};
       },
       kSize},
      {"statistics",
       [](Args& a, float* to) {
         a.statistics = {reinterpret_cast<Statistics*>(to), kRows};
       },
       kStatistics},
      {"gamma",
       [](Args& a, float* to) {
         a.gamma = {to, kFeatures};
       },
       kFeatures},
      {"dy",
       [](Args& a, float* to) {
         a.dy = {to, kRows, kFeatures};
       },
       kSize},
      {"d_residual",
       [](Args& a, float* to) {
         a.d_residual = {to, kRows, kFeatures};
       },
       kSize},
      {"skip",
       [](Args& a, float* to) {
         a.skip.vector = {to, kFeatures};
       },
       kFeatures},
      {"dx",
       [](Args& a, float* to) {
         a.dx = {to, kRows, kFeatures};
       },
       kSize,
       {"s", "dy", "d_residual"},
       true},
      {"d_gamma",
       [](Args& a, float* to) {
         a.d_gamma = {to, kFeatures};
       },
       kFeatures,
       {},
       true},
      {"d_beta",
       [](Args& a, float* to) {
         a.d_beta = {to, kFeatures};
       },
       kFeatures,
       {},
       true},
      {"workspace",
       [](Args& a, float* to) {
         a.workspace = {to, 500};
       },
       500,
       {},
       true}};
  expect_overlaps_refused<Args>("add_norm_backward: ", slots, {},
                                [](const Args& args) { add_norm_backward<float>({}, args); });
}

struct SumArgs {
  ResidualAdd<float> add;
  MatrixView<float> sum;
};
TEST(Overlaps, OfAnyOutputOfTheSumAreErrors) {
  using Args = SumArgs;
  const std::vector<Slot<Args>> slots = {{"x",
                                          [](Args& a, float* to) {
                                            a.add.x = {to, kRows, kFeatures};
                                          },
                                          kSize},
                                         {"branch",
                                          [](Args& a, float* to) {
                                            a.add.branch = {to, kRows, kFeatures};
                                          },
                                          kSize},
                                         {"skip",
                                          [](Args& a, float* to) {
                                            a.add.skip.vector = {to, kFeatures};
                                          },
                                          kFeatures},
                                         {"gain",
                                          [](Args& a, float* to) {
                                            a.add.gain.vector = {to, kFeatures};
                                          },
                                          kFeatures},
                                         {"sum",
                                          [](Args& a, float* to) {
                                            a.sum = {to, kRows, kFeatures};
                                          },
                                          kSize,
                                          {"x", "branch"},
                                          true}};
  expect_overlaps_refused<Args>("residual_add: ", slots, {},
                                [](const Args& a) { residual_add<float>(a.add, a.sum); });
}

TEST(Overlaps, OfAnyOutputOfTheSumsBackwardAreErrors) {
  using Args = ResidualAddBackward<float>;
  const std::vector<Slot<Args>> slots = {{"x",
                                          [](Args& a, float* to) {
                                            a.add.x = {to, kRows, kFeatures};
                                          },
                                          kSize},
                                         {"branch",
                                          [](Args& a, float* to) {
                                            a.add.branch = {to, kRows, kFeatures};
                                          },
                                          kSize},
                                         {"gain",
                                          [](Args& a, float* to) {
                                            a.add.gain.vector = {to, kFeatures};
                                          },
                                          kFeatures},
                                         {"d_sum",
                                          [](Args& a, float* to) {
                                            a.d_sum = {to, kRows, kFeatures};
                                          },
                                          kSize},
                                         {"d_branch",
                                          [](Args& a, float* to) {
                                            a.d_branch = {to, kRows, kFeatures};
                                          },
                                          kSize,
                                          {"d_sum"},
                                          true},
                                         {"d_skip",
                                          [](Args& a, float* to) {
                                            a.d_skip = {to, kFeatures};
                                          },
                                          kFeatures,
                                          {},
                                          true},
                                         {"d_gain",
                                          [](Args& a, float* to) {
                                            a.d_gain = {to, kFeatures};
                                          },
                                          kFeatures,
                                          {},
                                          true}};
  expect_overlaps_refused<Args>("residual_add_backward: ", slots, {},
                                [](const Args& args) { residual_add_backward<float>(args); });
}

constexpr std::size_t kLanes = 2, kLanesSize = kLanes * kSize;

template <typename Args, typename ToForward>
std::vector<Slot<Args>> lane_inputs(const ToForward& forward) {
  return {{"x",
           [=](Args& a, float* to) {
             forward(a).x = {to, kRows, kLanes, kFeatures};
           },
           kLanesSize},
          {"branch",
           [=](Args& a, float* to) {
             forward(a).branch = {to, kRows, 1, kFeatures};
           },
           kSize},
          {"carry", [=](Args& a, float* to) { forward(a).carry = MatrixView(to, 1, 4); }, 4},
          {"write", [=](Args& a, float* to) { forward(a).write = MatrixView(to, kRows, 2); }, 6},
          {"read", [=](Args& a, float* to) { forward(a).read = MatrixView(to, 1, 2); }, 2},
          {"gamma",
           [=](Args& a, float* to) {
             forward(a).gamma = {to, kFeatures};
           },
           kFeatures},
          {"beta",
           [=](Args& a, float* to) {
             forward(a).beta = {to, kFeatures};
           },
           kFeatures}};
}

TEST(Overlaps, OfAnyOutputOfLanesAreErrors) {
  using Args = LanesForward<float>;
  auto slots = lane_inputs<Args>([](Args& a) -> Args& { return a; });
  slots.push_back({"sum",
                   [](Args& a, float* to) {
                     a.sum = {to, kRows, kLanes, kFeatures};
                   },
                   kLanesSize,
                   {"x"},
                   true});
  slots.push_back({"y",
                   [](Args& a, float* to) {
                     a.y = {to, kRows, 1, kFeatures};
                   },
                   kSize,
                   {"branch"},
                   true});
  slots.push_back({"statistics",
                   [](Args& a, float* to) {
                     a.statistics = {reinterpret_cast<Statistics*>(to), kRows};
                   },
                   kStatistics,
                   {},
                   true});
  expect_overlaps_refused<Args>("lanes_forward: ", slots, {.norm = NormOptions{}},
                                [](const Args& args) { lanes_forward<float>(args); });
}

TEST(Overlaps, OfAnyOutputOfLanesBackwardAreErrors) {
  using Args = LanesBackward<float>;
  auto slots = lane_inputs<Args>([](Args& a) -> LanesForward<float>& { return a.forward; });
  const std::vector<Slot<Args>> more = {
      {"statistics",
       [](Args& a, float* to) {
         a.forward.statistics = {reinterpret_cast<Statistics*>(to), kRows};
       },
       kStatistics},
      {"d_sum",
       [](Args& a, float* to) {
         a.d_sum = {to, kRows, kLanes, kFeatures};
       },
       kLanesSize},
      {"dy",
       [](Args& a, float* to) {
         a.dy = {to, kRows, 1, kFeatures};
       },
       kSize},
      {"dx",
       [](Args& a, float* to) {
         a.dx = {to, kRows, kLanes, kFeatures};
       },
       kLanesSize,
       {"d_sum"},
       true},
      {"d_branch",
       [](Args& a, float* to) {
         a.d_branch = {to, kRows, 1, kFeatures};
       },
       kSize,
       {"dy"},
       true},
      {"d_carry",
       [](Args& a, float* to) {
         a.d_carry = {to, 1, 4};
       },
       4,
       {},
       true},
      {"d_write",
       [](Args& a, float* to) {
         a.d_write = {to, kRows, 2};
       },
       6,
       {},
       true},
      {"d_read",
       [](Args& a, float* to) {
         a.d_read = {to, 1, 2};
       },
       2,
       {},
       true},
      {"d_gamma",
       [](Args& a, float* to) {
         a.d_gamma = {to, kFeatures};
       },
       kFeatures,
       {},
       true},
      {"d_beta",
       [](Args& a, float* to) {
         a.d_beta = {to, kFeatures};
       },
       kFeatures,
       {},
       true},
      {"workspace",
       [](Args& a, float* to) {
         a.workspace = {to, 900};
       },
       900,
       {},
       true}};
  slots.insert(slots.end(), more.begin(), more.end());
  Args args;
  args.forward.norm = NormOptions{};
  expect_overlaps_refused<Args>("lanes_backward: ", slots, args,
                                [](const Args& a) { lanes_backward<float>(a); });
}

TEST(Overlaps, OfAnyOutputOfAnEpilogueAreErrors) {
  using Args = AddNormForward<float>;
  const auto matrix = [](float* to, std::size_t rows = kRows, std::size_t cols = kFeatures) {
    return MatrixView<float>(to, rows, cols);
  };
  const std::vector<Slot<Args>> slots = {
      {"x", [=](Args& a, float* to) { a.add.x = matrix(to); }, kSize},
      {"epilogue.gate.z", [=](Args& a, float* to) { a.epilogue.gate.z = matrix(to); }, kSize},
      {"modulation.scale", [=](Args& a, float* to) { a.epilogue.modulation.scale = matrix(to, 1); },
       kFeatures},
      {"modulation.shift", [=](Args& a, float* to) { a.epilogue.modulation.shift = matrix(to, 1); },
       kFeatures},
      {"y", [=](Args& a, float* to) { a.y = matrix(to); }, kSize, {"x"}, true},
      {"quantized.int8",
       [](Args& a, float* to) {
         a.epilogue.quantized.int8 = {reinterpret_cast<std::int8_t*>(to), kRows, kFeatures};
       },
       kSize / sizeof(float),
       {},
       true},
      {"quantized.scales",
       [=](Args& a, float* to) { a.epilogue.quantized.scales = matrix(to, kRows, 1); },
       kRows,
       {},
       true},
      {"epilogue.unrounded",
       [=](Args& a, float* to) { a.epilogue.unrounded = matrix(to); },
       kSize,
       {},
       true}};
  expect_overlaps_refused<Args>("add_norm_forward: ", slots, {},
                                [](const Args& args) { add_norm_forward<float>({}, args); });
}

TEST(Overlaps, OfAnyOutputOfAnEpiloguesBackwardAreErrors) {
  using Args = AddNormBackward<float>;
  const auto matrix = [](float* to, std::size_t rows = kRows) {
    return MatrixView<float>(to, rows, kFeatures);
  };
  const std::vector<Slot<Args>> slots = {
      {"s", [=](Args& a, float* to) { a.s = matrix(to); }, kSize},
      {"statistics",
       [](Args& a, float* to) {
         a.statistics = {reinterpret_cast<Statistics*>(to), kRows};
       },
       kStatistics},
      {"dy", [=](Args& a, float* to) { a.dy = matrix(to); }, kSize},
      {"epilogue.gate.z", [=](Args& a, float* to) { a.epilogue.gate.z = matrix(to); }, kSize},
      {"modulation.scale", [=](Args& a, float* to) { a.epilogue.modulation.scale = matrix(to, 1); },
       kFeatures},
      {"epilogue.beta",
       [](Args& a, float* to) {
         a.epilogue.beta = {to, kFeatures};
       },
       kFeatures},
      {"dx", [=](Args& a, float* to) { a.dx = matrix(to); }, kSize, {"s", "dy"}, true},
      {"workspace",
       [](Args& a, float* to) {
         a.workspace = {to, 500};
       },
       500,
       {},
       true},
      {"epilogue.dz",
       [=](Args& a, float* to) { a.epilogue.dz = matrix(to); },
       kSize,
       {"dy", "epilogue.gate.z"},
       true},
      {"epilogue.d_scale",
       [=](Args& a, float* to) { a.epilogue.d_scale = matrix(to, 1); },
       kFeatures,
       {},
       true},
      {"epilogue.d_shift",
       [=](Args& a, float* to) { a.epilogue.d_shift = matrix(to, 1); },
       kFeatures,
       {},
       true}};
  expect_overlaps_refused<Args>("add_norm_backward: ", slots, {},
                                [](const Args& args) { add_norm_backward<float>({}, args); });
}

struct RunningArgs {
  std::span<Statistics> statistics;
  RunningStatistics<float> running;
};
TEST(Overlaps, OfRunningStatisticsAreErrors) {
  using Args = RunningArgs;
  const auto slots = [](bool updates) {
    return std::vector<Slot<Args>>{{"statistics",
                                    [](Args& a, float* to) {
                                      a.statistics = {reinterpret_cast<Statistics*>(to), kRows};
                                    },
                                    kStatistics,
                                    {},
                                    !updates},
                                   {"mean",
                                    [](Args& a, float* to) {
                                      a.running.mean = {to, kRows};
                                    },
                                    kRows,
                                    {},
                                    updates},
                                   {"variance",
                                    [](Args& a, float* to) {
                                      a.running.variance = {to, kRows};
                                    },
                                    kRows,
                                    {},
                                    updates}};
  };
  expect_overlaps_refused<Args>("update_running_statistics: ", slots(true), {}, [](const Args& a) {
    update_running_statistics<float>({}, 2, a.statistics, a.running);
  });
  expect_overlaps_refused<Args>(
      "running_to_norm_statistics: ", slots(false), {},
      [](const Args& a) { running_to_norm_statistics<float>({}, a.running, a.statistics); });
}

/// Columns of one matrix, and rows that alternate with another matrix's, have no common element.
TEST(Overlaps, OfInterleavedMatricesAreNone) {
  std::vector<float> memory(1000, 0.5F);
  float* const at = memory.data();
  const auto norm = [](MatrixView<float> x, MatrixView<float> y) {
    add_norm_forward<float>({}, {.add = {.x = x}, .y = y});
  };
  const MatrixView<float> left(at, 5, 8, 20);
  EXPECT_NO_THROW(norm(left, {at + 8, 5, 8, 20})) << "columns beside it";
  EXPECT_NO_THROW(norm({at + 8, 5, 8, 20}, left)) << "columns beside it";
  EXPECT_NO_THROW(norm(left, {at + 2 * 20 + 8, 5, 8, 20})) << "columns further down";
  EXPECT_NO_THROW(norm({at, 3, 8, 16}, {at + 8, 3, 8, 16})) << "alternating rows";
  EXPECT_NO_THROW(norm({at, 4, 8, 20}, {at + 8, 4, 8, 60})) << "another stride";
  EXPECT_NO_THROW(norm({at + 200, 4, 8}, {at + 232, 4, 8})) << "end to end";
  const auto refused = ThrowsMessage<Error>(HasSubstr("x and y overlap"));
  EXPECT_THAT([&] { norm(left, {at + 7, 5, 8, 20}); }, refused);
  EXPECT_THAT([&] { norm(left, {at + 13, 5, 8, 20}); }, refused) << "with the next row";
  EXPECT_THAT([&] { norm(left, {at + 4 * 20 + 7, 5, 8, 20}); }, refused) << "in the last row";
  EXPECT_THAT([&] { norm(left, {at, 5, 8, 21}); }, refused) << "differs in its stride";
  EXPECT_NO_THROW(norm(left, left));
}

TEST(Overlaps, OfMatricesOfTwoTypesAreErrors) {
  std::vector<float> memory(1000);
  BFloat16* const half = reinterpret_cast<BFloat16*>(memory.data());
  const auto norm = [&](MatrixView<float> sum) {
    add_norm_forward<float, BFloat16>(
        {}, {.add = {.x = {memory.data() + 500, 3, 8}, .branch = {half, 3, 8}},
             .sum = sum,
             .y = {half, 3, 8}});
  };
  EXPECT_NO_THROW(norm({memory.data() + 500, 3, 8}));
  EXPECT_THAT(
      [&] {
        norm({memory.data(), 3, 8});
      },
      ThrowsMessage<Error>(HasSubstr("branch and sum overlap, but differ in")));
}

/// A stream that grows in place: X′ has one lane more than x, and both begin at the same address.
TEST(Overlaps, OfLanesAllowTheSameFirstLanes) {
  std::vector<float> memory(1000), numbers(9, 0.5F);
  float* const at = memory.data();
  const auto grow = [&](const LanesView<float>& sum) {
    lanes_forward<float>({.x = {at, kRows, 2, kFeatures, kFeatures, kSize},
                          .carry = {numbers.data(), 1, 6},
                          .sum = sum});
  };
  EXPECT_NO_THROW(grow({at, kRows, 3, kFeatures, kFeatures, kSize}));
  EXPECT_NO_THROW(lanes_forward<float>({.x = {at, kRows, 1, kFeatures, kFeatures, kFeatures},
                                        .carry = {numbers.data(), 1, 3},
                                        .sum = {at, kRows, 3, kFeatures, kFeatures, kSize}}))
      << "one lane has no other lane at a distance";
  EXPECT_THAT(
      [&] {
        grow({at, kRows, 3, kFeatures});
      },
      ThrowsMessage<Error>(HasSubstr("x and sum overlap, but differ in")));
  EXPECT_THAT(
      [&] {
        grow({at + 500, kRows, 3, kFeatures, 10, 19});
      },
      ThrowsMessage<Error>(HasSubstr("of sum overlap, each needs memory of its own")));
}

}  // namespace
}  // namespace addnorm::kernels::argument_memory_test
