#include "cli/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "addnorm/nn/placement.h"
#include "report/text.h"

namespace addnorm::cli {
namespace {

std::string_view trim(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

/// Parses all of `text` with std::from_chars.
template <typename T>
std::errc parse(std::string_view text, T& value) {
  text = trim(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return stop == end ? error : std::errc::invalid_argument;
}

double parse_number(const std::string& flag, std::string_view text) {
  double value = 0;
  const std::errc error = parse(text, value);
  require(error != std::errc::result_out_of_range,
          "{}: {} is out of range; expected a float64 number, at most about 1.8e308", flag,
          trim(text));
  require(error == std::errc{}, "{}: '{}' is not a number; expected one such as 1, -2.5 or 3e-2",
          flag, trim(text));
  return value;
}

std::uint64_t parse_count(const std::string& flag, std::string_view text) {
  std::uint64_t count = 0;
  const std::errc error = parse(text, count);
  require(error != std::errc::result_out_of_range, "{}: {} is too large; expected at most {}", flag,
          trim(text), std::numeric_limits<std::uint64_t>::max());
  require(error == std::errc{}, "{}: '{}' is not a whole number ≥ 0", flag, trim(text));
  return count;
}

/// Parses "1,2,3" or "1,": a trailing comma may separate it from the next argument.
void append_numbers(const std::string& flag, std::string_view text, std::vector<double>& numbers) {
  if (text.size() > 1 && text.ends_with(',')) text.remove_suffix(1);
  std::size_t comma = 0;
  do {
    comma = text.find(',');
    numbers.push_back(parse_number(flag, text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  } while (comma != text.npos);
}

}  // namespace

std::string hide_sign(const std::string& argument) {
  double ignored = 0;
  const std::string_view first = std::string_view(argument).substr(0, argument.find(','));
  const bool like_a_flag = first.starts_with('-') && first.find_first_of("0123456789") != 1;
  const bool is_number = parse(first, ignored) != std::errc::invalid_argument;
  return like_a_flag && is_number ? ' ' + argument : argument;
}

CLI::Option* add_numbers(CLI::App& app, const std::string& flag, std::vector<double>& numbers,
                         const std::string& help) {
  const auto read = [flag, &numbers](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) append_numbers(flag, text, numbers);
  };
  return app.add_option_function<std::vector<std::string>>(flag, read, help);
}

CLI::Option* add_rows(CLI::App& app, const std::string& flag,
                      std::vector<std::vector<double>>& rows, const std::string& help) {
  const auto read = [flag, &rows](const std::vector<std::string>& texts) {
    rows.emplace_back();
    for (const std::string& text : texts) {
      if (trim(text) != "/") {
        append_numbers(flag, text, rows.back());
        continue;
      }
      require(!rows.back().empty(), "{}: expected numbers before each /", flag);
      rows.emplace_back();
    }
    require(!rows.back().empty(), "{}: expected numbers after the last /", flag);
  };
  return app.add_option_function<std::vector<std::string>>(flag, read, help);
}

CLI::Option* add_number(CLI::App& app, const std::string& flag, double& number,
                        const std::string& help) {
  const auto read = [flag, &number](const std::string& text) { number = parse_number(flag, text); };
  return app.add_option_function<std::string>(flag, read, help)->type_name("X");
}

CLI::Option* add_count(CLI::App& app, const std::string& flag, std::uint64_t& count,
                       const std::string& help) {
  const auto read = [flag, &count](const std::string& text) { count = parse_count(flag, text); };
  return app.add_option_function<std::string>(flag, read, help)->type_name("N");
}

CLI::Option* add_counts(CLI::App& app, const std::string& flag, std::vector<std::size_t>& counts,
                        const std::string& help) {
  const auto read = [flag, &counts](const std::vector<std::string>& items) {
    for (const std::string& item : items) counts.push_back(parse_count(flag, item));
  };
  return app.add_option_function<std::vector<std::string>>(flag, read, help)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N,N...");
}

CLI::Option* add_list(CLI::App& app, const std::string& flag, std::vector<std::string>& names,
                      const std::string& help) {
  return app.add_option(flag, names, help)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIST");
}

CLI::Option* add_file(CLI::App& app, const std::string& flag, std::string& file,
                      const std::string& help) {
  return app.add_option(flag, file, help)->type_name("FILE");
}

CLI::Option* add_choice(CLI::App& app, const std::string& flag,
                        const std::vector<std::string_view>& names,
                        const std::function<void(std::size_t)>& choose, const std::string& help) {
  const auto read = [=](const std::string& given) {
    const auto found = std::ranges::find(names, given);
    require(found != names.end(), "{}: '{}' is unknown; expected one of {}", flag, given,
            fmt::join(names, ", "));
    choose(static_cast<std::size_t>(found - names.begin()));
  };
  return app.add_option_function<std::string>(flag, read, help)
      ->type_name(fmt::format("{}", fmt::join(names, "|")));
}

CLI::Option* add_switch(CLI::App& app, const std::string& flag, bool& is_on,
                        const std::string& help) {
  return app.add_flag(flag, is_on, help)->disable_flag_override();
}

std::string placement_names() {
  std::vector<std::string_view> names;
  for (const Placement& p : placements()) names.push_back(p.name);
  for (const Mixture& m : mixtures()) names.push_back(m.name);
  return fmt::format("{}", fmt::join(names, "|"));
}

std::string placement_help() {
  std::string names = placement_names();
  for (std::size_t at = 0; (at = names.find('|', at)) != names.npos;) names.replace(at, 1, ", ");
  return fmt::format(
      R"(A placement is a name, or names put together: post/pre is post around attention and pre around
feed-forward; post:3+pre is 3 layers of post and the rest pre. addnorm placements shows what each is:
{}
)",
      report::wrap(names, 99));
}

void add_norm_options(CLI::App& app, NormOptions& norm) {
  const auto read_epsilon = [&norm](const std::string& text) {
    norm.epsilon = parse_number("--eps", text);
    require(std::isfinite(norm.epsilon) && norm.epsilon >= 0,
            "--eps: is {}; expected a finite number ≥ 0", norm.epsilon);
  };
  app.add_option_function<std::string>("--eps", read_epsilon, "ε (default 1e-5)")->type_name("E");
  add_choice(app, "--eps-at", norm.epsilon_at,
             "σ = √(variance + ε), the default, or √variance + ε");
  add_choice(app, "--variance", norm.variance, "divide by n, the default, or by n − 1");
}

}  // namespace addnorm::cli
