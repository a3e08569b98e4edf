#include "io/json.h"

#include <set>
#include <vector>

namespace addnorm::io {

constexpr int kMostDepth = 32;

Json parse_json_line(std::string_view line) {
  const auto is_shallow = [](int depth, Json::parse_event_t, const Json&) {
    require(depth <= kMostDepth, "is nested more than {} deep", kMostDepth);
    return true;
  };
  Json object = Json::parse(line, is_shallow, false);
  require(object.is_object(), "is no JSON object (NaN is none: what is unknown has no key)");
  return object;
}

Json parse_json(std::string_view text, const std::string& file) {
  std::vector<std::set<std::string>> keys;  // of each object that is open
  const auto check = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    require(depth <= kMostDepth, "{}: is nested more than {} deep", file, kMostDepth);
    switch (event) {
      case Json::parse_event_t::object_start:
        keys.emplace_back();
        break;
      case Json::parse_event_t::object_end:
        keys.pop_back();
        break;
      case Json::parse_event_t::key:
        require(keys.back().insert(parsed.get<std::string>()).second, "{}: {} stands twice", file,
                parsed.dump());
        break;
      default:
        break;
    }
    return true;
  };
  Json object;
  try {
    object = Json::parse(text, check);
  } catch (const Json::exception& error) {  // no JSON, or a number that no double holds
    // Its message names the exception first: "[json.exception.parse_error.101] parse error at …".
    const std::string_view message = error.what();
    fail(fmt::format("{}: is not JSON: {}", file, message.substr(message.find("] ") + 2)));
  }
  require(object.is_object(), "{}: is {}, must be a JSON object", file, object.type_name());
  return object;
}

}  // namespace addnorm::io
