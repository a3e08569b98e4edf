#include "io/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace addnorm::io::json_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

auto throws(const std::string& words) {
  return ThrowsMessage<Error>(HasSubstr(words));
}

TEST(ParseJson, GivesTheObject) {
  EXPECT_EQ(parse_json(R"({"a": [1, {"b": null}], "c": "d"})", "file")["a"][0], 1);
}

TEST(ParseJson, SaysWhereItIsNone) {
  EXPECT_THAT([] { parse_json("{\n  \"a\": 1,\n}", "file"); }, throws("file: is not JSON"));
  EXPECT_THAT([] { parse_json("{\n  \"a\": 1,\n}", "file"); }, throws("line 3"));
  EXPECT_THAT([] { parse_json("", "file"); }, throws("file: is not JSON"));
  EXPECT_THAT([] { parse_json("{\"a\": 2e71000}", "file"); }, throws("file: is not JSON: number"));
  EXPECT_THAT([] { parse_json("[1]", "file"); }, throws("is array, must be a JSON object"));
  EXPECT_THAT([] { parse_json("{\"\xff\": 1}", "file"); }, throws("file: is not JSON"));
}

TEST(ParseJson, RefusesAKeyThatStandsTwiceInOneObject) {
  EXPECT_THAT([] { parse_json(R"({"a": 1, "a": 2})", "file"); }, throws("\"a\" stands twice"));
  EXPECT_NO_THROW(parse_json(R"({"a": {"a": 1}, "b": {"a": 2}})", "file"));
}

/// A bomb of brackets would otherwise take the stack when the value is freed.
TEST(ParseJson, RefusesDeepNesting) {
  const std::size_t deep = 100'000;
  const std::string bomb = "{\"a\":" + std::string(deep, '[') + std::string(deep, ']') + "}";
  EXPECT_THAT([&] { parse_json(bomb, "file"); }, throws("nested more than 32 deep"));
}

}  // namespace
}  // namespace addnorm::io::json_test
