#include "base/time_account.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace addnorm {
namespace {

using namespace std::chrono_literals;

double of(const TimeAccount& account, Cost cost) {
  return account.seconds().at(static_cast<std::size_t>(cost));
}

/// Returns the seconds since `begin`.
double since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(TimeAccount, EachMomentCountsForTheInnermostTimer) {
  const TimeAccount account;
  const auto begin = std::chrono::steady_clock::now();
  double inner_seconds = 0;
  {
    const ScopedTimer outer(Cost::kAddNorm);
    std::this_thread::sleep_for(20ms);
    const auto inner_begin = std::chrono::steady_clock::now();
    {
      const ScopedTimer inner(Cost::kProducts);
      std::this_thread::sleep_for(60ms);
    }
    inner_seconds = since(inner_begin);
    std::this_thread::sleep_for(20ms);
  }
  const double all_seconds = since(begin);
  EXPECT_GE(of(account, Cost::kAddNorm), 0.04);
  EXPECT_GE(of(account, Cost::kProducts), 0.06);
  EXPECT_LE(of(account, Cost::kProducts), inner_seconds);
  EXPECT_LE(of(account, Cost::kAddNorm) + of(account, Cost::kProducts), all_seconds)
      << "no moment counts twice";
  EXPECT_EQ(of(account, Cost::kAttention), 0);
  std::thread([&] {
    const ScopedTimer elsewhere(Cost::kAttention);
    std::this_thread::sleep_for(1ms);
  }).join();
  EXPECT_EQ(of(account, Cost::kAttention), 0) << "another thread's time is not this one's";
}

TEST(TimeAccount, ATimerWithoutOneDoesNothing) {
  { const ScopedTimer timer(Cost::kProducts); }
  const TimeAccount account;
  { const ScopedTimer timer(Cost::kRest); }
  EXPECT_EQ(of(account, Cost::kProducts), 0);
}

}  // namespace
}  // namespace addnorm
