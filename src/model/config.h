#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/require.h"
#include "io/json.h"

namespace addnorm::model {

/// Reads a config.json, key by key.
class Config {
 public:
  Config(const io::Json& object, std::string file) : object_(object), file_(std::move(file)) {}

  bool has(const char* key) const { return object_.contains(key) && !object_.at(key).is_null(); }

  std::size_t size(const char* key) const {
    const io::Json& value = at(key);
    require(value.is_number_unsigned() && value.get<std::size_t>() > 0 &&
                value.get<std::size_t>() <= kMost,
            "{}: {} is {}, must be a whole number from 1 to {}", file_, key, io::excerpt(value),
            kMost);
    return value.get<std::size_t>();
  }
  std::size_t size(const char* key, std::size_t absent) const {
    return has(key) ? size(key) : absent;
  }

  double number(const char* key) const {
    const io::Json& value = at(key);
    require(value.is_number() && value.get<double>() >= 0 && std::isfinite(value.get<double>()),
            "{}: {} is {}, must be a number ≥ 0", file_, key, io::excerpt(value));
    return value.get<double>();
  }
  double above_0(const char* key, double absent) const {
    const double value = number(key, absent);
    require(value > 0, "{}: {} is 0, must be above 0", file_, key);
    return value;
  }
  double above_0(const char* key) const {
    at(key);
    return above_0(key, 0);
  }
  double number(const char* key, double absent) const { return has(key) ? number(key) : absent; }

  bool flag(const char* key, bool absent) const {
    if (!has(key)) return absent;
    const io::Json& value = at(key);
    require(value.is_boolean(), "{}: {} is {}, must be true or false", file_, key,
            io::excerpt(value));
    return value.get<bool>();
  }

  std::string word(const char* key) const {
    const io::Json& value = at(key);
    require(value.is_string(), "{}: {} is {}, must be a string", file_, key, io::excerpt(value));
    return value.get<std::string>();
  }
  std::string word(const char* key, const char* absent) const {
    return has(key) ? word(key) : absent;
  }

  Config object(const char* key) const {
    const io::Json& value = at(key);
    require(value.is_object(), "{}: {} is {}, must be an object", file_, key, io::excerpt(value));
    return {value, file_ + ": " + key};
  }

  std::vector<double> numbers(const char* key) const {
    const io::Json& value = at(key);
    require(value.is_array(), "{}: {} is {}, must be a list", file_, key, io::excerpt(value));
    std::vector<double> result;
    for (const io::Json& one : value) {
      require(one.is_number() && one.get<double>() >= 0 && std::isfinite(one.get<double>()),
              "{}: {} holds {}, must hold numbers ≥ 0", file_, key, io::excerpt(one));
      result.push_back(one.get<double>());
    }
    return result;
  }

  std::vector<std::string> words(const char* key) const {
    const io::Json& value = at(key);
    require(value.is_array(), "{}: {} is {}, must be a list", file_, key, io::excerpt(value));
    std::vector<std::string> result;
    for (const io::Json& one : value) {
      require(one.is_string(), "{}: {} holds {}, must hold strings", file_, key, io::excerpt(one));
      result.push_back(one.get<std::string>());
    }
    return result;
  }

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(file_ + ": " + fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  static constexpr std::size_t kMost = 1'000'000'000;

  const io::Json& at(const char* key) const {
    require(has(key), "{}: {} is missing", file_, key);
    return object_.at(key);
  }

  const io::Json& object_;
  std::string file_;
};

}  // namespace addnorm::model
