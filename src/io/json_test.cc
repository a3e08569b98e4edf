#include "io/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "io/file.h"
#include "io/temporary_folder.h"

namespace addnorm::io::json_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;
using namespace std::string_literals;

auto throws(const std::string& words) {
  return ThrowsMessage<Error>(HasSubstr(words));
}

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(ParseJson, GivesTheObject) {
  const std::string text = R"( {"a": [1, -2, {"b": null}, true], "c": "d\u00e9", "e": 1.5e3} )";
  EXPECT_EQ(parse_json(text, "file"), Json::parse(text));
  EXPECT_EQ(parse_json("{}", "file"), Json::object());
}

TEST(ParseJson, KeepsWholeNumbersOf64Bits) {
  const Json json =
      parse_json(R"({"least": -9223372036854775808, "most": 18446744073709551615})", "");
  EXPECT_EQ(json["least"].get<std::int64_t>(), INT64_MIN);
  EXPECT_EQ(json["most"].get<std::uint64_t>(), UINT64_MAX);
}

TEST(ParseJson, SaysWhereWhatStandsThatIsNotJson) {
  const std::vector<std::pair<std::string, std::string>> all = {
      {"{\n  \"a\": 1,\n}\n", "line 3, column 1: unexpected '}', expected a key in quotes"},
      {"{\"a\": 1", "column 8: unexpected end, expected ',' or '}'"},
      {"{\"a\" 1}", "column 6: unexpected 1, expected ':'"},
      {"{\"a\":1 \"b\":2}", "column 10: unexpected string, expected ',' or '}'"},
      {"{\"a\":[1 2]}", "column 9: unexpected 2, expected ',' or ']'"},
      {"{\"a\":[1,]}", "column 9: unexpected ']', expected a value"},
      {"{\"a\":tru}", "column 6: unexpected tru, expected a value"},
      {"{\"a\":01}", "column 6: unexpected 01, expected ',' or '}'"},
      {"{\"a\":1.}", "column 6: unexpected 1., expected a value"},
      {"{\"a\":+1}", "column 6: unexpected +1, expected a value"},
      {"{'a':1}", "column 2: unexpected ''', expected a key in quotes"},
      {"{\"a\":\xff}", "column 6: unexpected byte 0xff, expected a value"},
      {"{} {}", "column 4: unexpected '{', expected the end"},
      {"{}x", "column 3: unexpected x, expected the end"},
      {"", "column 1: unexpected end, expected an object"},
      {"{\"a\":\"\n\"}", "line 1, column 7: invalid string: control character U+000A"},
      {"{\"a\":\"\xff\"}", "column 7: invalid string: ill-formed UTF-8"},
      {"{\"\xed\xa0\x80\":1}", "column 4: invalid string: ill-formed UTF-8"},
      {"{\"a\":\"\\ud800\"}", "column 13: invalid string: surrogate"},
  };
  for (const auto& [text, problem] : all) {
    EXPECT_THAT([&] { parse_json(text, "file"); }, throws("file: is not JSON: " + problem)) << text;
    EXPECT_THAT([&] { parse_json(text, "file"); }, Not(throws("exception"))) << text;
    EXPECT_FALSE(try_parse_json(text)) << text;
  }
}

/// The parser itself treats a byte 0 as the end of the text.
TEST(ParseJson, RefusesAByte0AndWhatStandsBehindIt) {
  EXPECT_THAT([] { parse_json("{}\0"s, "file"); },
              throws("file: is not JSON: column 3: unexpected byte 0x00"));
  EXPECT_THAT([] { parse_json("{\"a\":1}\0 garbage"s, "file"); },
              throws("column 8: unexpected byte"));
}

TEST(ParseJson, RefusesNumbersThatNoDoubleHolds) {
  for (const std::string number : {"1e999", "-1e999", "2e71000"}) {
    EXPECT_THAT([&] { parse_json("{\"a\": " + number + "}", "file"); },
                throws("file: column 7: " + number + " is too large for a number"));
  }
  for (const std::string number : {"NaN", "nan", "Infinity", "-Infinity", "inf"}) {
    EXPECT_THAT([&] { parse_json("{\"a\": " + number + "}", "file"); },
                throws("file: is not JSON: column 7: unexpected " + number +
                       ", expected a value (JSON has no NaN and Infinity)"));
  }
  EXPECT_EQ(parse_json("{\"a\": 1e-999}", "file")["a"], 0.0);
}

TEST(ParseJson, RefusesWhatIsNoObject) {
  EXPECT_THAT([] { parse_json("[1]", "file"); }, throws("file: is [1], must be a JSON object"));
  EXPECT_THAT([] { parse_json("null", "file"); }, throws("file: is null, must be a JSON object"));
  EXPECT_FALSE(try_parse_json("1"));
}

TEST(ParseJson, RefusesAKeyThatStandsTwiceInOneObject) {
  EXPECT_THAT([] { parse_json("{\"a\": 1,\n \"a\": 2}", "file"); },
              throws("file: line 2, column 4: the key \"a\" occurs twice"));
  EXPECT_THAT([] { parse_json(R"({"b": {"a": 1, "\u0061": 2}})", "file"); },
              throws("occurs twice"));
  EXPECT_NO_THROW(
      parse_json(R"({"a": {"a": 1}, "b": {"a": 2}, "c": [{"a": 3}, {"a": 4}]})", "file"));
}

/// Values are written and freed by recursion, which could overflow the stack.
TEST(ParseJson, RefusesDeepNesting) {
  EXPECT_NO_THROW(parse_json("{\"a\":" + nested(31) + "}", "file"));
  EXPECT_THAT([] { parse_json("{\"a\":" + nested(32) + "}", "file"); },
              throws("file: column 37: nested more than 32 deep"));
  for (const std::string open : {"[", "{\"a\":", "[{\"a\":"}) {
    std::string bomb = "{\"a\":";
    for (int i = 0; i < 100'000; ++i) bomb += open;
    EXPECT_THAT([&] { parse_json(bomb, "file"); }, throws("nested more than 32 deep")) << open;
  }
  EXPECT_FALSE(try_parse_json("{\"a\":" + nested(100'000) + "}"));
  EXPECT_NO_THROW(parse_json("{\"a\":\"" + nested(100'000) + "\"}", "file")) << "within a string";
}

/// A linear search of an object for each new key would take minutes.
TEST(ParseJson, TakesTimeLinearInTheKeys) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += '"' + std::to_string(i) + "\":0,";
  EXPECT_EQ(parse_json(text + "\"end\":1}", "file").size(), 200'001U);
}

TEST(ParseJson, NamesLongTextsBriefly) {
  const std::string key(1'000'000, 'k');
  const auto message = [](const std::string& text) {
    try {
      parse_json(text, "file");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const std::string& text : {"{\"" + key + "\":1,\"" + key + "\":2}", "{\"a\":" + key + "}",
                                  "[\"" + key + "\"]", "{\"" + key + "\xff\":1}"}) {
    EXPECT_THAT(message(text).size(), ::testing::AllOf(::testing::Gt(0U), ::testing::Lt(300U)));
  }
}

TEST(ReadJson, ReadsAFileOfLimitedSize) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/a.json";
  write_files({{file, "{\"a\": 1}\n"}});
  EXPECT_EQ(read_json(file)["a"], 1);
  write_files({{file, "{\"a\": 1\n"}});
  EXPECT_THAT([&] { read_json(file); },
              throws(file + ": is not JSON: line 2, column 1: unexpected end"));
  EXPECT_THAT([&] { read_json("/dev/zero"); },
              throws("/dev/zero: gives more than 100000000 bytes"));
}

}  // namespace
}  // namespace addnorm::io::json_test
