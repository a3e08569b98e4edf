#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>

namespace addnorm {
inline namespace base {

/// The categories of training time.
enum class Cost { kProducts, kAttention, kAddNorm, kOptimizer, kRest };
inline constexpr std::array<std::string_view, 5> kCostNames = {"products", "attention",
                                                               "add and norm", "optimizer", "rest"};

/// While it lives, the time of its thread is divided among costs: each moment counts for the
/// innermost ScopedTimer. A thread has at most one; without one a ScopedTimer does nothing.
class TimeAccount {
 public:
  TimeAccount() { active = this; }
  ~TimeAccount() { active = nullptr; }
  TimeAccount(const TimeAccount&) = delete;
  TimeAccount& operator=(const TimeAccount&) = delete;

  /// Returns the seconds up to the last begin or end of a ScopedTimer, in the order of Cost.
  std::array<double, kCostNames.size()> seconds() const { return seconds_; }

 private:
  friend class ScopedTimer;
  using Clock = std::chrono::steady_clock;

  Cost change_to(Cost cost) {
    const Clock::time_point now = Clock::now();
    seconds_[static_cast<std::size_t>(cost_)] +=
        std::chrono::duration<double>(now - since_).count();
    since_ = now;
    return std::exchange(cost_, cost);
  }

  static inline thread_local TimeAccount* active = nullptr;

  Cost cost_ = Cost::kRest;
  Clock::time_point since_ = Clock::now();
  std::array<double, kCostNames.size()> seconds_ = {};
};

/// Counts the time until its destruction, without that of inner timers.
class ScopedTimer {
 public:
#ifdef __wasm__  // there is no clock
  explicit ScopedTimer(Cost) {}
#else
  explicit ScopedTimer(Cost cost) : account_(TimeAccount::active) {
    if (account_ != nullptr) before_ = account_->change_to(cost);
  }
  ~ScopedTimer() {
    if (account_ != nullptr) account_->change_to(before_);
  }

 private:
  TimeAccount* account_;
  Cost before_ = Cost::kRest;
#endif

 public:
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;
};

}  // namespace base
}  // namespace addnorm
