#include "kernels/plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace addnorm::kernels::plan_test {
namespace {

Problem problem(Direction direction, std::size_t element_bytes, std::size_t rows,
                std::size_t features) {
  return {.direction = direction,
          .stream_bytes = element_bytes,
          .rows = rows,
          .features = features,
          .bytes = 4 * element_bytes * rows * features};
}

/// Returns loop, rows, prefetch and stores in short, such as "two-pass 8" or "pipelined 1 +512 nt";
/// also the tile unless it is 1024.
std::string in_short(const Plan& plan) {
  constexpr const char* kLoops[] = {"registers", "two-pass", "pipelined", "wide"};
  return fmt::format("{} {}{}{}{}", kLoops[static_cast<int>(plan.loop)], plan.rows,
                     plan.tile == 1024 ? "" : fmt::format(" tile {}", plan.tile),
                     plan.prefetch > 0 ? fmt::format(" +{}", plan.prefetch) : "",
                     plan.stores == Stores::kNonTemporal ? " nt" : "");
}

struct Shape {
  std::size_t rows, features;
};
constexpr Shape kShapes[] = {{8192, 4096}, {8192, 768}, {64, 768}, {1024, 64}, {65536, 32}};

/// Shows the effect of a changed constant on five machines and twenty problems.
TEST(Plan, IsHeldForFiveMachinesAtTwentyProblems) {
  std::map<std::string, std::string> plans;
  for (const Machine& machine : known_machines()) {
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      for (const std::size_t bytes : {4, 2}) {
        std::string& line = plans[fmt::format(
            "{} {}{}", machine.name, direction == Direction::kForward ? "forward" : "backward",
            8 * bytes)];
        for (const auto& [rows, features] : kShapes) {
          line += (line.empty() ? "" : ", ") +
                  in_short(plan(problem(direction, bytes, rows, features), machine));
        }
      }
    }
  }
  const std::map<std::string, std::string> expected = {
      {"neoverse-v1 backward16",
       "pipelined 1 +4096 nt, pipelined 2 +4608 nt, pipelined 2, registers 8 +1024, registers 8 "
       "+1024"},
      {"neoverse-v1 backward32",
       "two-pass 1 +16384 nt, two-pass 1 +3072 nt, two-pass 1, two-pass 4, registers 8 +1024 nt"},
      {"neoverse-v1 forward16",
       "pipelined 1 +4096 nt, pipelined 4 +7680 nt, pipelined 4, registers 8 +1024, registers 8 "
       "+1024"},
      {"neoverse-v1 forward32",
       "pipelined 1 +3072 nt, pipelined 1 nt, pipelined 1, two-pass 4, registers 8 +1024 nt"},
      {"sapphire-rapids backward16",
       "pipelined 1 +4096 nt, pipelined 2, pipelined 2, registers 8 +1024, registers 8 +1024"},
      {"sapphire-rapids backward32",
       "two-pass 1 +16384 nt, two-pass 1 +3072, two-pass 1, two-pass 4, registers 8 +1024"},
      {"sapphire-rapids forward16",
       "pipelined 1 +4096 nt, pipelined 4, pipelined 4, registers 8 +1024, registers 8 +1024"},
      {"sapphire-rapids forward32",
       "pipelined 1 +3072 nt, pipelined 1, pipelined 1, two-pass 4, registers 8 +1024"},
      {"zen3 backward16",
       "pipelined 1 +512 nt, pipelined 1 +512 nt, pipelined 2, registers 8 +1024, registers 8 "
       "+1024"},
      {"zen3 backward32",
       "pipelined 1 +512 nt, two-pass 1 nt, two-pass 1, two-pass 4, registers 8 +1024 nt"},
      {"zen3 forward16",
       "pipelined 1 +512 nt, pipelined 4 +7680 nt, pipelined 4, registers 8 +1024, registers 8 "
       "+1024"},
      {"zen3 forward32",
       "pipelined 1 +3072 nt, pipelined 1 nt, pipelined 1, two-pass 4, registers 8 +1024 nt"},
      {"zen4 backward16",
       "pipelined 1 +512 nt, pipelined 1 +512 nt, pipelined 2, registers 8 +1024, registers 8 "
       "+1024"},
      {"zen4 backward32",
       "pipelined 1 +512 nt, two-pass 1 nt, two-pass 1, two-pass 4, registers 8 +1024 nt"},
      {"zen4 forward16",
       "pipelined 1 +512 nt, pipelined 4 +7680 nt, pipelined 4, registers 8 +1024, registers 8 "
       "+1024"},
      {"zen4 forward32",
       "pipelined 1 +3072 nt, pipelined 1 nt, pipelined 1, two-pass 4, registers 8 +1024 nt"},
      {"zen5 backward16",
       "pipelined 1 +4096 nt, pipelined 2 +4608 nt, pipelined 2, registers 8 +1024, registers 8 "
       "+1024"},
      {"zen5 backward32",
       "two-pass 1 +16384 nt, two-pass 1 +3072 nt, two-pass 1, two-pass 4, registers 8 +1024 nt"},
      {"zen5 forward16",
       "pipelined 1 +4096 nt, pipelined 4 +7680 nt, pipelined 4, registers 8 +1024, registers 8 "
       "+1024"},
      {"zen5 forward32",
       "pipelined 1 +3072 nt, pipelined 1 nt, pipelined 1, two-pass 4, registers 8 +1024 nt"},
  };
  EXPECT_EQ(plans, expected);
}

TEST(Plan, StagesWhatItCanAndTakesWiderRowsBlockByBlock) {
  const Machine machine = known_machines()[0];
  EXPECT_NE(plan(problem(Direction::kForward, 4, 8, 16384), machine).loop, Loop::kWide);
  EXPECT_EQ(plan(problem(Direction::kForward, 4, 8, 16385), machine).loop, Loop::kWide);
  EXPECT_NE(plan(problem(Direction::kBackward, 4, 8, 65536), machine).loop, Loop::kWide);
}

TEST(Plan, StreamsOnlyWholeLinesThatAreNotInTheCache) {
  const Machine machine = known_machines()[0];
  Problem large = problem(Direction::kForward, 4, 65536, 512);
  EXPECT_EQ(plan(large, machine).stores, Stores::kNonTemporal);
  large.aligned = false;
  EXPECT_EQ(plan(large, machine).stores, Stores::kCached);
  Problem in_place = problem(Direction::kBackward, 4, 65536, 512);
  in_place.in_place = true;
  EXPECT_EQ(plan(in_place, machine).stores, Stores::kCached);
  EXPECT_TRUE(plan(in_place, machine).from_memory);
  EXPECT_EQ(plan(problem(Direction::kForward, 4, 64, 512), machine).stores, Stores::kCached);
}

TEST(Plan, PrefetchesAtLeastARowAheadWhereRowsHaveGaps) {
  Problem gaps = problem(Direction::kForward, 2, 65536, 4096);
  gaps.contiguous = false;
  EXPECT_EQ(plan(gaps, known_machines()[1]).prefetch, 8192);
}

TEST(Plan, SaysWhatItIs) {
  EXPECT_EQ(
      describe(
          {.loop = Loop::kPipelined, .rows = 1, .prefetch = 512, .stores = Stores::kNonTemporal}),
      "pipelined, 1 row, prefetch 512 bytes ahead, non-temporal stores");
  EXPECT_EQ(describe({.loop = Loop::kTwoPass, .rows = 4, .software_pipelined = true}),
            "software-pipelined two-pass, 4 rows, hardware prefetch, cached stores");
  EXPECT_EQ(describe({.loop = Loop::kTwoPass, .rows = 8}),
            "two-pass, 8 rows, tile 1024, hardware prefetch, cached stores");
}

TEST(Machine, IsThisOneUnlessAnotherIsUsed) {
  const Machine own = machine();
  EXPECT_GE(own.l1, 4096);
  EXPECT_LE(own.l1, 1 << 20);
  EXPECT_GE(own.last_level, own.l1);
  EXPECT_GE(own.cores, 1);
  EXPECT_FALSE(own.instruction_set.empty());
  use_machine(known_machines()[2]);
  EXPECT_EQ(machine().name, "zen5");
  use_this_machine();
  EXPECT_EQ(machine().l1, own.l1);
}

}  // namespace
}  // namespace addnorm::kernels::plan_test
