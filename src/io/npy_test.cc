#include "io/npy.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>

#include "addnorm/error.h"
#include "io/file.h"

namespace addnorm::io::npy_test {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

/// Returns a .npy file with any header and data.
std::string npy(const std::string& header, const std::string& data = "", char version = 1) {
  std::string length(version == 1 ? 2 : 4, '\0');
  length[0] = static_cast<char>(header.size() & 0xff);
  length[1] = static_cast<char>(header.size() >> 8);
  return "\x93NUMPY"s + version + '\0' + length + header + data;
}

std::string header(const std::string& shape) {
  return "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }\n";
}

NpyArray parse(const std::string& bytes) {
  return parse_npy(bytes, "x.npy");
}

auto throws(const std::string& part) {
  return ThrowsMessage<Error>(AllOf(HasSubstr("x.npy: "), HasSubstr(part)));
}

// numpy.save's bytes for [[1, 2, 3], [-1, 0.5, inf]] as float32, and for 2.5 as float64 (NumPy
// 1.24).
const std::string kMatrixFile =
    "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"s +
    std::string(58, ' ') +
    "\n\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80\xbf\x00\x00\x00?\x00\x00\x80\x7f"s;
const std::string kScalarFile =
    "\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (), }"s +
    std::string(62, ' ') + "\n\x00\x00\x00\x00\x00\x00\x04@"s;

const Floats kMatrix{1, 2, 3, -1, 0.5, std::numeric_limits<float>::infinity()};

TEST(NpyTest, ReadsWhatNumpyWrites) {
  const NpyArray matrix = parse(kMatrixFile);
  EXPECT_THAT(matrix.shape, ElementsAre(2, 3));
  EXPECT_EQ(std::get<Floats>(matrix.values), kMatrix);
  const NpyArray scalar = parse(kScalarFile);
  EXPECT_THAT(scalar.shape, IsEmpty());
  EXPECT_THAT(std::get<Doubles>(scalar.values), ElementsAre(2.5));
}

TEST(NpyTest, WritesTheBytesOfNumpy) {
  EXPECT_EQ(to_npy({2, 3}, kMatrix), kMatrixFile);
  EXPECT_EQ(to_npy({}, Doubles{2.5}), kScalarFile);
  EXPECT_EQ(to_npy({0, 3}, Floats{}),
            "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }"s +
                std::string(58, ' ') + '\n');
}

TEST(NpyTest, WritesAWholeBlockOfPaddingWhereNumpyDoes) {
  const std::string bytes = to_npy({0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 100}, Floats{});
  EXPECT_EQ(bytes.size(), 192);
  EXPECT_EQ(bytes.substr(8, 2), "\xb6\0"s);
}

TEST(NpyTest, ReadsAndWritesFiles) {
  const std::string file = ::testing::TempDir() + "addnorm-npy-test.npy";
  write_files({{file, to_npy({2, 3}, kMatrix)}});
  EXPECT_EQ(std::get<Floats>(read_npy(file).values), kMatrix);
  std::remove(file.c_str());
}

template <typename T>
void expect_round_trip() {
  Shape shape = *rc::gen::resize(4, rc::gen::container<Shape>(rc::gen::inRange(0, 5)));
  std::size_t size = 1;
  for (const std::size_t n : shape) size *= n;
  const auto values = *rc::gen::container<std::vector<T>>(size, rc::gen::arbitrary<T>());
  const NpyArray read = parse(to_npy(shape, values));
  RC_ASSERT(read.shape == shape);
  RC_ASSERT(std::get<std::vector<T>>(read.values) == values);
}

RC_GTEST_PROP(NpyTest, FloatsSurviveARoundTrip, ()) {
  expect_round_trip<float>();
}
RC_GTEST_PROP(NpyTest, DoublesSurviveARoundTrip, ()) {
  expect_round_trip<double>();
}

TEST(NpyTest, PayloadOfNanSurvivesARoundTrip) {
  std::string bytes = kMatrixFile;
  bytes.replace(128, 4, "\x01\x02\xa0\xff");
  EXPECT_EQ(to_npy({2, 3}, std::get<Floats>(parse(bytes).values)), bytes);
}

TEST(NpyTest, ReadsTheOtherVersions) {
  for (const char version : {'\2', '\3'}) {
    EXPECT_EQ(std::get<Floats>(parse(npy(header("(1,)"), "\x00\x00\x80?"s, version)).values),
              Floats{1});
  }
}

TEST(NpyTest, HeaderMayBeSpacedAndOrderedInAnyWay) {
  for (const char* text : {
           "{'shape': (2, 1), 'descr': '<f4', 'fortran_order': False}",
           "{ \"descr\" :\t\"<f4\" ,'shape':(2L,1L,),'fortran_order':False , }  \n",
           "  {'fortran_order':False,'shape':( 2 , 1 ),'descr':'<f4'}\n",
       }) {
    EXPECT_THAT(parse(npy(text, std::string(8, '\0'))).shape, ElementsAre(2, 1)) << text;
  }
}

TEST(NpyTest, EmptyArraysAreFine) {
  EXPECT_THAT(parse(npy(header("(0,)"))).shape, ElementsAre(0));
  EXPECT_THAT(parse(npy(header("(4, 0, 3)"))).shape, ElementsAre(4, 0, 3));
}

TEST(NpyTest, MalformedHeadersAreErrors) {
  for (const char* text : {
           "",
           " \n",
           "{",
           "{}",
           "[]",
           "{'descr'",
           "{'descr': ",
           "{'descr: 1}",
           "{'descr': '<f4', 'fortran_order': False}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} {",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
           "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4',, 'fortran_order': False, 'shape': (1,)}",
           "{'descr': 4, 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
           "{'descr': '<f4\n', 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
       }) {
    EXPECT_THAT([&] { parse(npy(text, "data")); }, throws("malformed header: expected ")) << text;
  }
  EXPECT_THAT([] { parse(npy("{'descr' '<f4'}")); }, throws("expected ':' at its byte 9"));
}

TEST(NpyTest, ForeignFilesAreErrors) {
  for (const std::string& bytes : {""s, "\x93NUMP"s, "PK\x03\x04 an .npz"s, "1,2,3\n"s}) {
    EXPECT_THAT([&] { parse(bytes); }, throws("is not a .npy file"));
  }
  EXPECT_THAT([] { parse("\x93NUMPY\x04\x00    "s); }, throws("version 4.0 is not supported"));
  EXPECT_THAT([] { parse("\x93NUMPY\x01\x01    "s); }, throws("version 1.1 is not supported"));
}

TEST(NpyTest, OtherDtypesAreNamed) {
  for (const char* dtype : {"<f2", ">f4", ">f8", "<i8", "|b1", "|O", "<c8"}) {
    const std::string text = "{'descr': '"s + dtype + "', 'fortran_order': False, 'shape': (1,), }";
    EXPECT_THAT([&] { parse(npy(text, "datadata")); },
                throws("dtype '"s + dtype + "' is not supported; expected '<f4' or '<f8'"));
  }
  EXPECT_THAT([] { parse(npy("{'descr': [('a', '<f4')], 'fortran_order': False}")); },
              throws("structured arrays are not supported"));
}

TEST(NpyTest, FortranOrderIsAnErrorOnlyWhereItDiffers) {
  const auto fortran = [](const std::string& shape, std::size_t values) {
    return parse(npy("{'descr': '<f4', 'fortran_order': True, 'shape': " + shape + "}",
                     std::string(4 * values, '\0')));
  };
  for (const char* shape : {"(2, 3)", "(2, 1, 3)", "(1, 2, 3)", "(3, 2, 1)"}) {
    EXPECT_THAT([&] { fortran(shape, 6); },
                throws("Fortran order is not supported; save it with numpy.ascontiguousarray"))
        << shape;
  }
  for (const auto& [shape, values] :
       {std::pair("()", 1), {"(3,)", 3}, {"(1, 3)", 3}, {"(3, 1)", 3}, {"(2, 3, 0)", 0}}) {
    EXPECT_EQ(std::get<Floats>(fortran(shape, values).values).size(), values) << shape;
  }
}

TEST(NpyTest, ShapeThatIsTooLargeIsAnError) {
  for (const char* shape : {"(4294967296, 4294967296)", "(4611686018427387904,)",
                            "(0, 4294967296, 4294967296)", "(18446744073709551615, 3, 5)"}) {
    EXPECT_THAT([&] { parse(npy(header(shape), "data")); }, throws("is too large")) << shape;
  }
}

TEST(NpyTest, DataOfTheWrongSizeIsAnError) {
  EXPECT_THAT([] { parse(npy(header("(2, 3)"), std::string(23, 'x'))); },
              throws("truncated: 23 bytes of data, but shape (2, 3) of '<f4' takes 24"));
  EXPECT_THAT([] { parse(npy(header("(1000000000000,)"), "data")); }, throws("truncated"));
  EXPECT_THAT([] { parse(npy(header("(2, 3)"), std::string(25, 'x'))); },
              throws("1 bytes too many after the data of shape (2, 3)"));
  EXPECT_THAT([] { parse(npy(header("(0,)"), "x")); }, throws("1 bytes too many"));
}

TEST(NpyTest, EveryTruncationIsAnError) {
  for (std::size_t size = 0; size < kMatrixFile.size(); ++size) {
    EXPECT_THROW(parse(kMatrixFile.substr(0, size)), Error) << size;
  }
  EXPECT_THAT([] { parse(kMatrixFile.substr(0, 7)); }, throws("truncated in the header"));
  EXPECT_THAT([] { parse(kMatrixFile.substr(0, 9)); }, throws("truncated in the header"));
  EXPECT_THAT([] { parse(kMatrixFile.substr(0, 100)); }, throws("truncated in the header"));
}

RC_GTEST_PROP(NpyTest, DamageIsReadOrAnErrorButNoCrash, ()) {
  std::string bytes = kMatrixFile;
  const auto flips = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, 70)));
  for (const std::size_t i : flips) bytes[i] = *rc::gen::arbitrary<char>();
  try {
    const NpyArray array = parse(bytes);
    RC_ASSERT(shape_bytes(array.shape, 4) == 24u);
  } catch (const Error&) {
  }
}

TEST(NpyTest, WriterRefusesValuesThatDoNotFillTheShape) {
  EXPECT_THAT(
      [] {
        to_npy({2, 3}, Floats(5));
      },
      ThrowsMessage<Error>(HasSubstr("5 values do not fill the shape (2, 3)")));
  EXPECT_THAT([] { to_npy(Shape(33, 1), Floats(1)); }, ThrowsMessage<Error>(HasSubstr("rank 33")));
}

TEST(Npy, ReadsIntegers) {
  const std::string file = ::testing::TempDir() + "integers.npy";
  const auto with_dtype = [&](const char* dtype, std::string_view data) {
    std::string bytes = to_npy({2}, std::vector<float>{0, 0});
    bytes.replace(bytes.find("<f4"), 3, dtype);
    bytes.resize(bytes.size() - 2 * sizeof(float));
    write_files({{file, bytes + std::string(data)}});
    return read_npy_integers(file).values;
  };
  EXPECT_EQ(with_dtype("<i4", std::string_view("\5\0\0\0\xff\xff\xff\xff", 8)),
            (std::vector<std::int64_t>{5, -1}));
  EXPECT_EQ(with_dtype("<i8", std::string_view("\5\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0", 16)),
            (std::vector<std::int64_t>{5, 256}));
  EXPECT_THROW(with_dtype("<f4", std::string_view("\0\0\0\0\0\0\0\0", 8)), Error);
  EXPECT_THROW(with_dtype("<i8", std::string_view("\5\0\0\0", 4)), Error);
}

}  // namespace
}  // namespace addnorm::io::npy_test
