#include "lab/stack_profile.h"

#include "addnorm/matrix.h"
#include "base/parallel.h"

namespace addnorm::lab {
namespace {

StackPlan plan_of(const theory::WideStack& stack, const SilentBug* bug) {
  StackPlan plan{.block = {.d_model = stack.d_model,
                           .d_ff = stack.d_ff,
                           .feed_forward = FeedForwardKind::kRelu,
                           .norm = stack.norm},
                 .placements = stack.placements,
                 .final_norm = stack.final_norm};
  if (bug != nullptr) bug->put_into(plan);
  return plan;
}

Stack<float> draw(const StackPlan& plan, const theory::WideStack& stack,
                  TorchGenerator& generator) {
  Stack<float> drawn(plan.block, plan.placements, plan.final_norm);
  for (std::size_t i = 0; i < plan.placements.size(); ++i) {
    Block<float>& block = drawn.blocks()[i];
    initialize(block, plan.placements[i], {i + 1, plan.placements.size()}, stack.initialization,
               generator);
    if (stack.queries == theory::Queries::kDrawn) continue;
    Linear<float>& query = block.attention().query();
    query.weight().value.fill(0);
    query.bias().value.fill(0);
  }
  return drawn;
}

double squared_norm(std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return sum;
}

}  // namespace

StackProfile profile_stack(const theory::WideStack& stack, std::uint64_t seed,
                           const SilentBug* bug) {
  TorchGenerator generator(seed);
  Stack<float> drawn = draw(plan_of(stack, bug), stack, generator);
  Matrix<float> x(stack.tokens, stack.d_model);
  Matrix<float> y(stack.tokens, stack.d_model);
  Matrix<float> gradient(stack.tokens, stack.d_model);
  generator.fill_normal(x.flat(), 0, 1);
  generator.fill_normal(gradient.flat(), 0, 1);

  Scratch<float> scratch;
  probe::Profiler<float> profiler(stack.tokens);
  const Pass<float> pass{
      .length = stack.tokens, .mode = Mode::kEvaluation, .scratch = &scratch, .probe = &profiler};
  drawn.forward(x, y, pass);
  drawn.backward(gradient, gradient, pass);
  StackProfile profile{.entries = profiler.entries()};
  for (Block<float>& block : drawn.blocks()) {
    profile.down_gradient.push_back(
        squared_norm(block.feed_forward().down().weight().gradient.flat()));
  }
  return profile;
}

std::vector<StackProfile> profile_stacks(const theory::WideStack& stack, std::uint64_t first,
                                         std::size_t seeds, const SilentBug* bug) {
  std::vector<StackProfile> profiles(seeds);
  parallel_jobs(seeds, [&](std::size_t i) { profiles[i] = profile_stack(stack, first + i, bug); });
  return profiles;
}

}  // namespace addnorm::lab
