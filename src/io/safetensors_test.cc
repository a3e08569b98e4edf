#include "io/safetensors.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "addnorm/error.h"
#include "io/file.h"

namespace addnorm::io::safetensors_test {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

/// Returns a safetensors file with any header and data.
std::string container(const std::string& header, const std::string& data = "") {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

Safetensors parse(const std::string& bytes) {
  return parse_safetensors(bytes, "x.safetensors");
}

auto throws(const std::string& part) {
  return ThrowsMessage<Error>(AllOf(HasSubstr("x.safetensors: "), HasSubstr(part)));
}

/// Returns the values of a file's only tensor.
template <typename T>
std::vector<T> values_of(const std::string& dtype, std::size_t size, const std::string& data) {
  const std::string header = "{\"t\":{\"dtype\":\"" + dtype + "\",\"shape\":[" +
                             std::to_string(size) + "],\"data_offsets\":[0," +
                             std::to_string(data.size()) + "]}}";
  return tensor_values<T>(parse(container(header, data)).at("t"));
}

// A file made by tests/golden/safetensors_writer.py: {"b": [[1, -2]] as float32, "a": 7 as int64}.
const std::string kFile =
    "p\0\0\0\0\0\0\0"
    R"({"b":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
    R"("a":{"dtype":"I64","shape":[],"data_offsets":[8,16]}}   )"
    "\0\0\x80?\0\0\0\xc0\7\0\0\0\0\0\0\0"s;

TEST(SafetensorsTest, ReadsAndWritesTheBytesOfTheScripts) {
  const Safetensors file = parse(kFile);
  ASSERT_EQ(file.tensors.size(), 2);
  EXPECT_EQ(file.tensors[0].name, "b");
  EXPECT_EQ(file.at("b").dtype, Dtype::kF32);
  EXPECT_THAT(file.at("b").shape, ElementsAre(1, 2));
  EXPECT_THAT(tensor_values<float>(file.at("b")), ElementsAre(1, -2));
  EXPECT_EQ(file.at("a").dtype, Dtype::kI64);
  EXPECT_THAT(file.at("a").shape, IsEmpty());
  EXPECT_THAT(tensor_values<double>(file.at("a")), ElementsAre(7));
  EXPECT_THAT(file.metadata, IsEmpty());
  EXPECT_EQ(to_safetensors(file.tensors), kFile);
}

TEST(SafetensorsTest, ReadsFilesAndKeepsTheirBytes) {
  const std::string name = ::testing::TempDir() + "addnorm-test.safetensors";
  write_files({{name, kFile}});
  Safetensors copy;
  {
    const Safetensors file = read_safetensors(name);
    copy = file;
  }
  std::remove(name.c_str());
  EXPECT_THAT(tensor_values<float>(copy.at("b")), ElementsAre(1, -2));
  EXPECT_THAT([&] { copy.at("c"); },
              ThrowsMessage<Error>(HasSubstr("test.safetensors: no tensor 'c' among its 2")));
}

TEST(SafetensorsTest, FileWithoutTensorsIsFine) {
  EXPECT_THAT(parse(container("{}")).tensors, IsEmpty());
  EXPECT_EQ(to_safetensors({}), container("{}      "));
}

TEST(SafetensorsTest, TensorsComeInTheOrderOfTheirBytes) {
  const Safetensors file =
      parse(container(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                      R"("none":{"dtype":"F64","shape":[0],"data_offsets":[1,1]},)"
                      R"("z":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                      "zA"));
  std::vector<std::string> names;
  for (const StoredTensor& tensor : file.tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("z", "none", "a"));
}

TEST(SafetensorsTest, MetadataIsKept) {
  const std::map<std::string, std::string> metadata{{"format", "pt"}, {"note", "a \"b\" ü\n"}};
  const Floats values{1, 2};
  const std::string bytes = to_safetensors({stored_tensor("x", {2}, values)}, metadata);
  EXPECT_EQ(parse(bytes).metadata, metadata);
  EXPECT_EQ(bytes.find("__metadata__"), 10);
}

TEST(SafetensorsTest, DataStartsAtAMultipleOfEight) {
  for (std::size_t size = 0; size < 20; ++size) {
    EXPECT_EQ(to_safetensors({stored_tensor(std::string(size, 'x'), {0}, Floats{})}).size() % 8, 0);
  }
}

TEST(SafetensorsTest, WidensEveryDtype) {
  EXPECT_THAT(values_of<double>("F64", 1, "\0\0\0\0\0\0\4@"s), ElementsAre(2.5));
  EXPECT_THAT(values_of<double>("F32", 1, "\0\0\x80\xbf"s), ElementsAre(-1));
  EXPECT_THAT(values_of<float>("BF16", 3, "\x80\x3f\x49\xc0\x80\x7f"),
              ElementsAre(1, -3.140625f, std::numeric_limits<float>::infinity()));
  EXPECT_THAT(values_of<double>("I64", 2, std::string(8, '\xff') + "\0\0\0\0\1\0\0\0"s),
              ElementsAre(-1, 4294967296.0));
  EXPECT_THAT(values_of<float>("I32", 1, "\xfe\xff\xff\xff"), ElementsAre(-2));
  EXPECT_THAT(values_of<float>("U8", 2, "\0\xff"s), ElementsAre(0, 255));
}

TEST(SafetensorsTest, RoundsToTheNearestFloat) {
  const Doubles values{0.1, 1e-300, 1e300, -16777217};
  EXPECT_THAT(tensor_values<float>(stored_tensor("x", {4}, values)),
              ElementsAre(0.1f, 0, std::numeric_limits<float>::infinity(), -16777216));
}

// The value of a binary16 from its fields (IEEE 754-2019, 3.4).
float half_by_its_fields(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  float value = static_cast<float>(std::ldexp(1024 + fraction, exponent - 25));
  if (exponent == 0) value = static_cast<float>(std::ldexp(fraction, -24));
  if (exponent == 31) value = fraction == 0 ? INFINITY : NAN;
  return std::copysign(value, bits >> 15 ? -1.0f : 1.0f);
}

TEST(SafetensorsTest, EveryHalfIsWidenedExactly) {
  std::string data;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    data += static_cast<char>(bits & 0xff);
    data += static_cast<char>(bits >> 8);
  }
  const Floats values = values_of<float>("F16", 65536, data);
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float expected = half_by_its_fields(static_cast<std::uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(values[bits])) << bits;
    } else {
      ASSERT_EQ(values[bits], expected) << bits;
    }
    ASSERT_EQ(std::signbit(values[bits]), std::signbit(expected)) << bits;
  }
}

RC_GTEST_PROP(SafetensorsTest, TensorsSurviveARoundTrip,
              (const Floats& floats, const Doubles& doubles,
               const std::vector<std::int64_t>& integers)) {
  const Safetensors file = parse(to_safetensors({
      stored_tensor("floats", {floats.size(), 1}, floats),
      stored_tensor("doubles", {1, doubles.size()}, doubles),
      stored_tensor("integers", {integers.size()}, integers),
  }));
  RC_ASSERT(tensor_values<float>(file.at("floats")) == floats);
  RC_ASSERT(tensor_values<double>(file.at("doubles")) == doubles);
  RC_ASSERT(file.at("doubles").shape == (Shape{1, doubles.size()}));
  RC_ASSERT(to_safetensors({file.at("integers")}) ==
            to_safetensors({stored_tensor("integers", {integers.size()}, integers)}));
}

RC_GTEST_PROP(SafetensorsTest, DamageIsReadOrAnErrorButNoCrash, ()) {
  std::string bytes = kFile;
  const auto flips = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, bytes.size())));
  for (const std::size_t i : flips) bytes[i] = *rc::gen::arbitrary<char>();
  try {
    for (const StoredTensor& tensor : parse(bytes).tensors) tensor_values<float>(tensor);
  } catch (const Error&) {
  }
}

TEST(SafetensorsTest, EveryTruncationIsAnError) {
  for (std::size_t size = 0; size < kFile.size(); ++size) {
    EXPECT_THROW(parse(kFile.substr(0, size)), Error) << size;
  }
  EXPECT_THAT([] { parse("1234567"); }, throws("is not a safetensors file: 7 bytes"));
  EXPECT_THAT([] { parse(kFile.substr(0, 100)); },
              throws("truncated: header of 112 bytes in a file of 100"));
}

TEST(SafetensorsTest, HeaderLengthHasALimit) {
  EXPECT_THAT([] { parse(std::string(16, '\xff')); }, throws("at most 100000000 allowed"));
  EXPECT_THAT([] { parse("\1\xe1\xf5\5\0\0\0\0{}"s); }, throws("header of 100000001 bytes"));
}

TEST(SafetensorsTest, HeaderMustBeAJsonObject) {
  for (const std::string& header : {""s, "{"s, "{\"a\""s, "{} {}"s, "{\"\xff\":1}"s, "{}\0"s}) {
    EXPECT_THAT([&] { parse(container(header)); }, throws(": header: is not JSON: column"))
        << header;
  }
  EXPECT_THAT([] { parse(container("{\"a\":1e999}")); }, throws("1e999 is too large"));
  EXPECT_THAT([] { parse(container("[1]")); }, throws("header: is [1], must be a JSON object"));
  EXPECT_THAT([] { parse(container("{\"a\":" + std::string(100'000, '['))); },
              throws("header: column 37: nested more than 32 deep"));
}

TEST(SafetensorsTest, MetadataMustBeStrings) {
  EXPECT_THAT([] { parse(container(R"({"__metadata__":1})")); },
              throws("__metadata__ is not a JSON object"));
  EXPECT_THAT([] { parse(container(R"({"__metadata__":{"a":1}})")); },
              throws("__metadata__ 'a' is not a string"));
}

/// Parses a file with one tensor "t" whose entry is `entry` and 8 bytes of data.
auto entry(const std::string& text) {
  return [text] { parse(container("{\"t\":" + text + "}", "12345678")); };
}

TEST(SafetensorsTest, EntriesMustBeWhole) {
  for (const char* text :
       {"1", "[]", "{}", R"({"dtype":"F32","shape":[2]})",
        R"({"dtype":"F32","data_offsets":[0,8]})", R"({"shape":[2],"data_offsets":[0,8]})"}) {
    EXPECT_THAT(entry(text), throws("tensor 't': expected dtype, shape and data_offsets")) << text;
  }
}

TEST(SafetensorsTest, UnknownDtypesAreNamed) {
  EXPECT_THAT(entry(R"({"dtype":"F8_E5M2","shape":[8],"data_offsets":[0,8]})"),
              throws("tensor 't' has dtype F8_E5M2; expected one of F64 F32 F16 BF16 I64"));
  EXPECT_THAT(entry(R"({"dtype":32,"shape":[8],"data_offsets":[0,8]})"), throws("has dtype 32"));
}

TEST(SafetensorsTest, SizesMustBeNaturalNumbers) {
  for (const char* shape : {"2", "[-2]", "[2.0]", "[\"2\"]", "[99999999999999999999999]", "{}"}) {
    EXPECT_THAT(entry(R"({"dtype":"F32","shape":)"s + shape + R"(,"data_offsets":[0,8]})"),
                throws("tensor 't': shape is not a list of sizes"))
        << shape;
  }
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[-8,0]})"),
              throws("data_offsets is not a list of sizes"));
}

TEST(SafetensorsTest, OffsetsMustLieInTheFile) {
  for (const char* offsets : {"[0,9]", "[8,0]", "[8]", "[0,4,8]", "[16,24]",
                              "[18446744073709551608,18446744073709551615]"}) {
    EXPECT_THAT(entry(R"({"dtype":"F32","shape":[2],"data_offsets":)"s + offsets + "}"),
                throws("are not a range of the file's 8 bytes of data"))
        << offsets;
  }
}

TEST(SafetensorsTest, ShapeMustFitTheBytes) {
  for (const char* shape :
       {"[3]", "[1]", "[0]", "[2,2]", "[9223372036854775808,2]", "[4611686018427387905,2]"}) {
    EXPECT_THAT(entry(R"({"dtype":"F32","shape":)"s + shape + R"(,"data_offsets":[0,8]})"),
                throws("8 bytes do not hold the shape"))
        << shape;
  }
}

/// Parses a file with two tensors of bytes, a and b, at the given offsets of 8 bytes of data.
auto two(std::size_t a_begin, std::size_t a_end, std::size_t b_begin, std::size_t b_end) {
  const auto text = [](std::size_t begin, std::size_t end) {
    return "{\"dtype\":\"U8\",\"shape\":[" + std::to_string(end - begin) + "],\"data_offsets\":[" +
           std::to_string(begin) + "," + std::to_string(end) + "]}";
  };
  return [header = "{\"a\":" + text(a_begin, a_end) + ",\"b\":" + text(b_begin, b_end) + "}"] {
    parse(container(header, "12345678"));
  };
}

TEST(SafetensorsTest, TensorsMustFillTheDataOnce) {
  EXPECT_NO_THROW(two(0, 3, 3, 8)());
  EXPECT_NO_THROW(two(3, 8, 0, 3)());
  EXPECT_NO_THROW(two(0, 8, 8, 8)());
  EXPECT_THAT(two(0, 4, 3, 8), throws("tensor 'b' overlaps the one before it"));
  EXPECT_THAT(two(0, 8, 0, 8), throws("tensor 'b' overlaps the one before it"));
  EXPECT_THAT(two(0, 8, 4, 4), throws("tensor 'b' overlaps the one before it"));
  EXPECT_THAT(two(0, 3, 4, 8), throws("there are unused bytes before tensor 'b'"));
  EXPECT_THAT(two(1, 3, 3, 8), throws("there are unused bytes before tensor 'a'"));
  EXPECT_THAT(two(0, 3, 3, 7), throws("1 bytes too many after the last tensor"));
}

TEST(SafetensorsTest, NamesMustDiffer) {
  const std::string tensor = R"("t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_THAT([&] { parse(container("{" + tensor + "," + tensor + "}", "1")); },
              throws("the key \"t\" occurs twice"));
}

TEST(SafetensorsTest, WriterRefusesWhatItCouldNotRead) {
  const Floats one{1};
  const auto tensor = [&](const std::string& name) { return stored_tensor(name, {1}, one); };
  EXPECT_THAT(
      [&] {
        to_safetensors({tensor("a"), tensor("a")});
      },
      ThrowsMessage<Error>(HasSubstr("the name 'a' is used twice")));
  EXPECT_THAT([&] { to_safetensors({tensor("__metadata__")}); },
              ThrowsMessage<Error>(HasSubstr("the name '__metadata__' is used twice")));
  EXPECT_THAT([&] { to_safetensors({stored_tensor("a", {2}, one)}); },
              ThrowsMessage<Error>(HasSubstr("4 bytes do not fill the shape (2,) of F32")));
  EXPECT_THAT([&] { to_safetensors({tensor("\xff")}); },
              ThrowsMessage<Error>(HasSubstr("is not UTF-8")));
}

}  // namespace
}  // namespace addnorm::io::safetensors_test
