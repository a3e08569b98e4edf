// Training on several processes, represented by threads.

#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "addnorm/error.h"
#include "addnorm/nn/initialize.h"
#include "support/threads_as_processes.h"
#include "train/gradient_sum.h"
#include "train/trainer.h"

namespace addnorm::train {
namespace {

using ::testing::Each;
using ::testing::Eq;
using testing::on_threads;

std::vector<float> values_of(std::size_t rank, std::size_t bucket, std::size_t size) {
  std::vector<float> values(size);
  TorchGenerator(100 * rank + bucket).fill_normal(std::span(values), 0, 1e3);
  if (size > 1) values[1] = std::array{1e8F, -1e8F, 1.0F}.at(rank % 3);  // 1 only in this order
  return values;
}

TEST(GradientSum, AddsInOrderOfRankAndGivesAllTheSameBits) {
  for (const std::size_t processes : {2, 3, 5}) {
    const std::vector<std::size_t> sizes{1, 1000, 17, 100'003};
    const auto sums = on_threads(processes, [&](Communicator& world) {
      std::vector<Parameter<float>> parameters;
      parameters.reserve(sizes.size());
      for (const std::size_t size : sizes) {
        parameters.emplace_back(1, size, ParameterRole::kWeight);
      }
      GradientSum<float> sum(world, {{{"", &parameters[0]}, {"", &parameters[1]}},
                                     {{"", &parameters[2]}},
                                     {},
                                     {{"", &parameters[3]}}});
      std::vector<float> all;
      for (int step = 0; step < 3; ++step) {
        for (std::size_t p = 0; p < sizes.size(); ++p) {
          std::ranges::copy(values_of(world.rank(), p, sizes[p]), parameters[p].gradient.data());
        }
        for (const std::size_t bucket : {3, 1, 2, 0}) sum.start(bucket);
        sum.finish();
        for (const auto& p : parameters) {
          all.insert(all.end(), p.gradient.flat().begin(), p.gradient.flat().end());
        }
      }
      return all;
    });
    std::vector<float> expected;
    for (int step = 0; step < 3; ++step) {
      for (std::size_t p = 0; p < sizes.size(); ++p) {
        std::vector<float> sum = values_of(0, p, sizes[p]);
        for (std::size_t r = 1; r < processes; ++r) {
          const std::vector<float> more = values_of(r, p, sizes[p]);
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
        }
        expected.insert(expected.end(), sum.begin(), sum.end());
      }
    }
    EXPECT_THAT(sums, Each(Eq(expected))) << processes;
  }
}

TEST(Communicator, TellsAllTheSameSumAndTheFirstText) {
  const auto results = on_threads(3, [](Communicator& world) {
    const std::string mine = world.rank() == 0 ? "" : "rank " + std::to_string(world.rank());
    return std::to_string(world.sum(std::array{1e17, -1e17, 1.0}.at(world.rank()))) +
           world.first_text(mine) + (world.any(world.rank() == 2) ? "yes" : "no");
  });
  EXPECT_THAT(results, Each(std::string("1.000000rank 1yes")));
  EXPECT_EQ(one_process().first_text(std::string(1000, 'x')).size(), 499);
}

struct Curve {
  std::vector<double> numbers;  // loss and gradient norm of each step, and the validation loss
  std::vector<float> state;
  bool operator==(const Curve&) const = default;
};

template <typename T>
Curve curve(Communicator& world, const TrainerOptions& given, double dropout,
            std::string_view placement) {
  std::string words;
  for (int i = 0; i < 600; ++i) words += std::to_string(i * i) + ' ';
  const ByteText text(words, 8);
  Decoder<T> decoder({.block = {.d_model = 12, .n_heads = 2, .d_ff = 20, .dropout = dropout},
                      .placements = parse_placements(placement, 3),
                      .context = 8});
  TorchGenerator generator(0);
  initialize(decoder, Initialization::kXavier, generator);
  TrainerOptions options = given;
  options.world = &world;
  Trainer<T> trainer(decoder, text, options);
  Curve result;
  for (int i = 0; i < 6; ++i) {
    result.numbers.push_back(trainer.step());
    result.numbers.push_back(trainer.gradient_norm());
  }
  result.numbers.push_back(trainer.validate(2));
  for (const auto& [name, matrix] : trainer.state()) {
    result.state.insert(result.state.end(), matrix->flat().begin(), matrix->flat().end());
  }
  return result;
}

template <typename T>
void expect_like_one_process(std::size_t processes, const TrainerOptions& options, double dropout,
                             double tolerance, std::string_view placement = "post:1+rezero:1+pre") {
  const auto train = [&](Communicator& world) {
    return curve<T>(world, options, dropout, placement);
  };
  const Curve alone = on_threads(1, [&](Communicator&) { return train(one_process()); })[0];
  const std::vector<Curve> together = on_threads(processes, train);
  for (std::size_t i = 0; i < alone.numbers.size(); ++i) {
    EXPECT_NEAR(together[0].numbers[i], alone.numbers[i], tolerance * std::abs(alone.numbers[i]))
        << i;
  }
  EXPECT_THAT(together, Each(Eq(together[0]))) << "every process has the same bits";
  EXPECT_EQ(on_threads(processes, train)[0], together[0]) << "and has them every time";
}

TEST(TrainerOnProcesses, GoesAsOneDoes) {
  const TrainerOptions options{.batch = 12, .learning_rate = {1e-2, 3}, .seed = 3};
  for (const std::size_t processes : {2, 4}) {
    expect_like_one_process<double>(processes, options, 0, 1e-11);
    expect_like_one_process<float>(processes, options, 0, 1e-4);
  }
}

TEST(TrainerOnProcesses, GoesAsOneDoesWithLanesAndRandomDepth) {
  const TrainerOptions options{.batch = 12, .learning_rate = {1e-2, 3}, .seed = 3};
  for (const char* placement :
       {"mhc", "altup", "siamese", "mudd", "attention-residuals", "stochastic-depth"}) {
    SCOPED_TRACE(placement);
    expect_like_one_process<double>(2, options, 0, 1e-11, placement);
    expect_like_one_process<BFloat16>(2, options, 0, 1e-2, placement);
  }
}

TEST(TrainerOnProcesses, GoesAsOneDoesWithDropoutAccumulationAndClipping) {
  const TrainerOptions options{
      .batch = 6, .accumulate = 3, .learning_rate = {1e-2, 3}, .clip = 0.5, .seed = 3};
  expect_like_one_process<double>(2, options, 0.2, 1e-11);
  expect_like_one_process<double>(3, options, 0.2, 1e-11);
  expect_like_one_process<float>(2, options, 0.2, 1e-4);
  expect_like_one_process<BFloat16>(2, options, 0.2, 1e-2);
}

TEST(TrainerOnProcesses, ProfilesAdminOnTheWholeBatch) {
  const ByteText text(std::string(1000, 'a') + std::string(1000, 'b'), 8);
  const auto skips = [&](Communicator& world) {
    Decoder<float> decoder({.block = {.d_model = 12, .n_heads = 2, .d_ff = 20},
                            .placements = parse_placements("admin", 2),
                            .context = 8});
    TorchGenerator generator(0);
    initialize(decoder, Initialization::kXavier, generator);
    const Trainer<float> trainer(decoder, text, {.batch = 4, .world = &world});
    return decoder.stack().blocks()[1].feed_forward_add_norm().skip().value(0, 0);
  };
  EXPECT_THAT(on_threads(2, skips), Each(skips(one_process())));
}

TEST(TrainerOnProcesses, RefusesUnequalShares) {
  const auto message = [](Communicator& world) {
    try {
      curve<float>(world, {.batch = 5}, 0, "pre");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(
      on_threads(2, message),
      Each(std::string("trainer: a batch of 5 windows cannot be shared equally by 2 processes")));
}

}  // namespace
}  // namespace addnorm::train
