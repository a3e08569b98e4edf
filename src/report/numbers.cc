#include "report/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace addnorm::report {
namespace {

// floor(log10), also for values such as 999.9999, which `digits` digits round to the next power.
int exponent_of(double value, int digits) {
  const std::string text = fmt::format("{:.{}e}", value, digits - 1);
  return std::stoi(text.substr(text.find('e') + 1));
}

bool is_plain(int exponent) {
  return exponent >= -3 && exponent < 5;
}

std::string power_of_ten(int exponent) {
  if (exponent == 0) return "1";
  if (exponent == 1) return "10";
  static constexpr const char* kDigits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = exponent < 0 ? "10⁻" : "10";
  for (char digit : std::to_string(std::abs(exponent))) text += kDigits[digit - '0'];
  return text;
}

// Returns the least of 1, 2, 5, 10, 20, 50, … times a power of ten that is at least `least`.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::vector<Tick> linear_ticks(const Range& range, int most) {
  const double step = round_step((range.high - range.low) / most);
  const int step_exponent = exponent_of(step, 1);
  const double largest = std::max(std::abs(range.low), std::abs(range.high));
  const int power = is_plain(step_exponent) && largest < 1e6 ? 0 : exponent_of(largest, 1);
  const int decimals = std::max(0, power - step_exponent);
  std::vector<Tick> ticks;
  // Indices, not sums of steps: 0.3 must not become 0.30000000000000004, nor 0 become 1e-17.
  for (double i = std::ceil(range.low / step - 1e-6); i * step <= range.high + 1e-6 * step; ++i) {
    std::string label = fmt::format("{:.{}f}", i * step / std::pow(10, power), decimals);
    if (power != 0 && i != 0) label += "×" + power_of_ten(power);
    ticks.push_back({i * step, i == 0 ? "0" : label});
  }
  return ticks;
}

std::vector<Tick> decades(int first, int last, int most) {
  const auto fits = [&](int stride) { return (last - first) / stride < most; };
  int stride = 1;
  while (!fits(stride)) stride += stride < 3 ? 1 : 5 - stride % 5;  // 1, 2, 3, 5, 10, 15, …
  const bool plain = first >= -3 && last <= 4;
  std::vector<Tick> ticks;
  for (int e = first; e <= last; ++e) {
    std::string label =
        plain ? fmt::format("{:.{}f}", std::pow(10, e), std::max(0, -e)) : power_of_ten(e);
    ticks.push_back({std::pow(10, e), e % stride == 0 ? label : ""});
  }
  return ticks;
}

std::vector<Tick> log_ticks(const Range& range, int most) {
  const int first = static_cast<int>(std::ceil(std::log10(range.low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(range.high) + 1e-9));
  if (last - first >= 2) return decades(first, last, most);
  if (range.high < 3 * range.low) return linear_ticks(range, most);
  std::vector<Tick> ticks;
  for (int e = first - 1; e <= last; ++e) {
    for (int factor : {1, 2, 5}) {
      const double value = factor * std::pow(10, e);
      if (value < range.low || value > range.high) continue;
      const std::string times = factor == 1 ? "" : fmt::format("{}×", factor);
      ticks.push_back({value, is_plain(e) ? format_number(value, 1) : times + power_of_ten(e)});
    }
  }
  return ticks;
}

}  // namespace

bool has_place(double value, AxisScale scale) {
  return std::isfinite(value) && (scale == AxisScale::kLinear || value > 0);
}

Range widen(Range range, std::span<const double> values, AxisScale scale) {
  for (double value : values) {
    if (!has_place(value, scale)) continue;
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  return range;
}

double place(double value, const Range& range, AxisScale scale) {
  if (scale == AxisScale::kLinear) return (value - range.low) / (range.high - range.low);
  if (value <= 0) return -std::numeric_limits<double>::infinity();
  return std::log10(value / range.low) / std::log10(range.high / range.low);
}

std::vector<Tick> ticks(const Range& range, AxisScale scale, int most) {
  return scale == AxisScale::kLinear ? linear_ticks(range, most) : log_ticks(range, most);
}

std::string format_number(double value, int digits) {
  if (!std::isfinite(value) || value == 0) return fmt::format("{}", value);
  const int exponent = exponent_of(value, digits);
  if (is_plain(exponent)) return fmt::format("{:.{}f}", value, std::max(0, digits - 1 - exponent));
  const std::string text = fmt::format("{:.{}e}", value, digits - 1);
  return fmt::format("{}e{}", text.substr(0, text.find('e')), exponent);
}

Message to_message(double value, int digits) {
  return Message::number(format_number(value, digits));
}

std::string format_count(std::size_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3; text.insert(at, ",")) at -= 3;
  return text;
}

std::string format_count(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", format_count(count), noun, count == 1 ? "" : "s");
}

std::string format_spread(double mean, double spread) {
  if (!std::isfinite(mean) || !std::isfinite(spread) || spread == 0) {
    return fmt::format("{} ± {}", format_number(mean), format_number(spread));
  }
  const double largest = std::max(std::abs(mean), std::abs(spread));
  const int exponent = exponent_of(largest, 3);
  const int power = is_plain(exponent) ? 0 : exponent;
  const int decimals = std::max(0, power + 1 - exponent_of(spread, 2));
  const double unit = std::pow(10, power);
  const std::string text =
      fmt::format("{:.{}f} ± {:.{}f}", mean / unit, decimals, spread / unit, decimals);
  return power == 0 ? text : fmt::format("({})e{}", text, power);
}

}  // namespace addnorm::report
