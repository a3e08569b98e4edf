#include "io/gguf.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "addnorm/error.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "io/temporary_folder.h"
#include "support/gguf_writer.h"

namespace addnorm::io {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::gguf_bytes;
using testing::gguf_text;
using testing::GgufWriter;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

Gguf parse(const std::string& bytes) {
  return parse_gguf(bytes, "x.gguf");
}

/// Matches an error message of one line.
auto throws(const std::string& part) {
  return ThrowsMessage<Error>(AllOf(HasSubstr("x.gguf: "), HasSubstr(part), Not(HasSubstr("\n"))));
}

/// A file with two tensors and a value of every kind.
GgufWriter small() {
  GgufWriter writer;
  writer.add("general.architecture", "llama");
  writer.add("llama.block_count", 2U);
  writer.add("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  writer.add("some.flag", true);
  writer.add("some.list", 9,
             gguf_bytes(5U) + gguf_bytes<std::uint64_t>(2) + gguf_bytes(-1) + gguf_bytes(7));
  writer.add("some.texts", 9,
             gguf_bytes(8U) + gguf_bytes<std::uint64_t>(2) + gguf_text("a") + gguf_text(""));
  writer.add_tensor("matrix", {2, 3}, {1, 2, 3, 4, 5, 6});
  writer.add_tensor("vector", {3}, {-1, -2, -3});
  return writer;
}

TEST(GgufTest, ReadsMetadataAndTensors) {
  for (const std::uint32_t version : {2U, 3U}) {
    GgufWriter writer = small();
    writer.version = version;
    const Gguf file = parse(writer.bytes());
    EXPECT_EQ(file.metadata.at("general.architecture"), "llama");
    EXPECT_EQ(file.metadata.at("llama.block_count"), 2);
    EXPECT_EQ(file.metadata.at("llama.attention.layer_norm_rms_epsilon"), 1e-5) << "as written";
    EXPECT_EQ(file.metadata.at("some.flag"), true);
    EXPECT_EQ(file.metadata.at("some.list").dump(), "[-1,7]");
    EXPECT_EQ(file.metadata.at("some.texts").dump(), R"(["a",""])");
    EXPECT_THAT(file.at("matrix").shape, ElementsAre(3, 2)) << "rows of two";
    EXPECT_THAT(tensor_values<float>(file.at("matrix")), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(tensor_values<float>(file.at("vector")), ElementsAre(-1, -2, -3));
    EXPECT_THAT([&] { file.at("none"); }, throws("no tensor 'none' among its 2"));
  }
}

TEST(GgufTest, AFileWithoutTensorsIsFine) {
  EXPECT_THAT(parse(GgufWriter().bytes()).tensors, IsEmpty());
}

TEST(GgufTest, KeepsNoLongListsAndNoTextsThatAreNotUtf8) {
  GgufWriter writer;
  std::string tokens = gguf_bytes(8U) + gguf_bytes<std::uint64_t>(5000);
  for (int i = 0; i < 5000; ++i) tokens += gguf_text("token");
  writer.add("tokenizer.ggml.tokens", 9, tokens);
  writer.add("general.name", "\xff");
  writer.add("last", 7U);
  const Gguf file = parse(writer.bytes());
  EXPECT_TRUE(file.metadata.at("tokenizer.ggml.tokens").is_null());
  EXPECT_TRUE(file.metadata.at("general.name").is_null());
  EXPECT_EQ(file.metadata.at("last"), 7);
}

// The file was made by the Python package gguf: golden/generate_gguf.py.
TEST(GgufTest, ReadsEveryTypeAsThePackageGgufDoes) {
  const std::string golden = ADDNORM_SOURCE_DIR "/tests/golden/gguf/types";
  const Gguf file = read_gguf(golden + ".gguf");
  const Safetensors expected = read_safetensors(golden + ".safetensors");
  EXPECT_EQ(file.metadata.at("golden.u8"), 200);
  EXPECT_EQ(file.metadata.at("golden.i8"), -100);
  EXPECT_EQ(file.metadata.at("golden.u16"), 60000);
  EXPECT_EQ(file.metadata.at("golden.i16"), -30000);
  EXPECT_EQ(file.metadata.at("golden.u32"), 4000000000U);
  EXPECT_EQ(file.metadata.at("golden.i32"), -2000000000);
  EXPECT_EQ(file.metadata.at("golden.u64"), 1ULL << 63);
  EXPECT_EQ(file.metadata.at("golden.i64"), -(1LL << 62));
  EXPECT_EQ(file.metadata.at("golden.f32"), 0.1);
  EXPECT_EQ(file.metadata.at("golden.f64"), 0.1);
  EXPECT_EQ(file.metadata.at("golden.flag"), true);
  EXPECT_EQ(file.metadata.at("golden.text"), "γ");
  EXPECT_EQ(file.metadata.at("golden.list").dump(), "[1,2,3]");
  std::size_t read = 0;
  for (const StoredTensor& tensor : file.tensors) {
    const StoredTensor& wanted = expected.at(tensor.name);
    EXPECT_EQ(info(tensor.dtype).name, tensor.name);
    if (!is_readable(tensor.dtype)) {
      EXPECT_TRUE(std::ranges::equal(tensor.bytes, wanted.bytes)) << tensor.name;
      EXPECT_THAT([&] { tensor_values<float>(tensor); },
                  ThrowsMessage<Error>(HasSubstr("which is not supported here")));
      continue;
    }
    const auto values = tensor_values<float>(tensor);
    const auto others = tensor_values<float>(wanted);
    ASSERT_EQ(tensor.shape, wanted.shape) << tensor.name;
    for (std::size_t i = 0; i < others.size(); ++i) {
      ASSERT_FALSE(std::isnan(values[i])) << tensor.name << " " << i;
      ASSERT_EQ(values[i], others[i]) << tensor.name << " " << i;
    }
    ++read;
  }
  EXPECT_EQ(read, 15U);  // F32, F16, BF16 and twelve in blocks
  EXPECT_EQ(file.tensors.size(), 25U);
}

/// A range of values may begin and end within blocks.
TEST(GgufTest, ReadsAnyRunOfValuesInBlocks) {
  const Gguf file = read_gguf(ADDNORM_SOURCE_DIR "/tests/golden/gguf/types.gguf");
  for (const char* name : {"Q8_0", "IQ4_NL", "Q3_K", "Q4_K"}) {
    const StoredTensor& tensor = file.at(name);
    const auto all = tensor_values<float>(tensor);
    for (std::size_t first = 0; first < all.size(); first += 37) {
      std::vector<float> some(std::min<std::size_t>(70, all.size() - first));
      read_values<float>(tensor, first, some);
      for (std::size_t i = 0; i < some.size(); ++i) EXPECT_EQ(some[i], all[first + i]) << name;
    }
  }
}

TEST(GgufTest, ReadsAModelInSeveralFiles) {
  const TemporaryFolder folder;
  const std::string first = folder.path() + "/m-00001-of-00002.gguf";
  const std::string second = folder.path() + "/m-00002-of-00002.gguf";
  GgufWriter one, two;
  one.add("split.count", 2U);
  one.add_tensor("a", {1}, {1});
  two.add("split.count", 2U);
  two.add("split.no", 1U);
  two.add_tensor("b", {1}, {2});
  write_files({{first, one.bytes()}, {second, two.bytes()}});
  const Gguf whole = read_gguf(first);
  EXPECT_THAT(tensor_values<float>(whole.at("a")), ElementsAre(1));
  EXPECT_THAT(tensor_values<float>(whole.at("b")), ElementsAre(2));
  EXPECT_THAT([&] { read_gguf(second); },
              ThrowsMessage<Error>(HasSubstr("expected its first part, …-00001-of-00002.gguf")));
  const std::string other = folder.path() + "/other.gguf";
  write_files({{other, one.bytes()}});
  EXPECT_THAT([&] { read_gguf(other); },
              ThrowsMessage<Error>(HasSubstr("its name must end with -00001-of-00002.gguf")));
}

TEST(GgufTest, LaterPartsMustBeOfTheSameModel) {
  const TemporaryFolder folder;
  const std::string first = folder.path() + "/m-00001-of-00002.gguf";
  const std::string second = folder.path() + "/m-00002-of-00002.gguf";
  GgufWriter one;
  one.add("split.count", 2U);
  one.add("general.architecture", "llama");
  one.add_tensor("a", {1}, {1});
  const auto expect_refused = [&](const GgufWriter& two, const char* part) {
    write_files({{first, one.bytes()}, {second, two.bytes()}});
    EXPECT_THAT([&] { read_gguf(first); }, ThrowsMessage<Error>(HasSubstr(part)));
  };
  for (const unsigned number : {0U, 2U, 7U}) {
    GgufWriter two;
    two.add("split.no", number);
    expect_refused(two, "00002-of-00002.gguf: split.no is ");
  }
  GgufWriter other_count;
  other_count.add("split.count", 3U);
  expect_refused(other_count, "split.count is 3, must be 2, as part 2 of ");
  GgufWriter other_model;
  other_model.add("general.architecture", "qwen2");
  expect_refused(other_model, "general.architecture is \"qwen2\", must be \"llama\"");
  GgufWriter again;
  again.add_tensor("a", {1}, {2});
  expect_refused(again, "tensor 'a' is in an earlier part too");
  GgufWriter silent;  // what a part does not say is not checked
  silent.add_tensor("b", {1}, {2});
  write_files({{first, one.bytes()}, {second, silent.bytes()}});
  EXPECT_EQ(read_gguf(first).tensors.size(), 2u);
}

TEST(GgufTest, EveryTruncationIsAnError) {
  const std::string bytes = small().bytes();
  const std::size_t padding = 32 - 3 * sizeof(float);  // after the last tensor
  for (std::size_t size = 0; size < bytes.size() - padding; ++size) {
    EXPECT_THAT([&] { parse(bytes.substr(0, size)); }, throws("")) << size;
  }
  EXPECT_NO_THROW(parse(bytes.substr(0, bytes.size() - padding)));
  EXPECT_THAT([&] { parse(bytes.substr(0, 10)); },
              throws("truncated: the number of tensors takes 8 bytes from byte 8 on, 2 are left"));
  EXPECT_THAT([&] { parse(bytes.substr(0, bytes.size() - padding - 1)); },
              throws("truncated: tensor 'vector' has 12 bytes at offset 32 of the data, of which "
                     "there are 43"));
}

TEST(GgufTest, OtherFilesAndVersionsAreNamed) {
  EXPECT_THAT([] { parse("GGML1234"); }, throws("is not a GGUF file: it does not begin with GGUF"));
  const auto version = [](std::uint32_t number) {
    return [number] {
      GgufWriter writer;
      writer.version = number;
      parse(writer.bytes());
    };
  };
  EXPECT_THAT(version(1), throws("GGUF version 1 is not supported; expected 2 or 3"));
  EXPECT_THAT(version(4), throws("GGUF version 4"));
  EXPECT_THAT(version(3U << 24), throws("of a big-endian machine"));
}

/// The reader allocates no memory that the file does not justify.
TEST(GgufTest, CountsMustFitTheFile) {
  const auto counts = [](std::uint64_t tensors, std::uint64_t keys, const std::string& rest) {
    const std::string bytes = "GGUF" + gguf_bytes(3U) + gguf_bytes(tensors) + gguf_bytes(keys);
    return [=] { parse(bytes + rest); };
  };
  EXPECT_THAT(counts(kHuge, 0, ""),
              throws("the number of tensors is 18446744073709551615, more than the 8 bytes"));
  EXPECT_THAT(counts(0, kHuge / 2, ""), throws("the number of keys is 9223372036854775807"));
  EXPECT_THAT(counts(0, 2, std::string(27, 'x')), throws("the number of keys is 2, more than the"));
  EXPECT_THAT(counts(0, 10'001, std::string(200'000, 'x')), throws("must be at most 10000"));
}

/// Returns a file with one value.
auto value(std::uint32_t type, const std::string& bytes) {
  GgufWriter writer;
  writer.add("key", type, bytes);
  return [bytes = writer.bytes()] { parse(bytes); };
}
std::string list_of(std::uint32_t type, std::uint64_t count) {
  return gguf_bytes(type) + gguf_bytes(count);
}

TEST(GgufTest, ValuesMustBeOfAKnownTypeAndInTheFile) {
  EXPECT_THAT(value(13, "x"), throws("key has the type 13, must have 0 to 12"));
  EXPECT_THAT(value(7, "\2"), throws("key is 2, must be 0 (false) or 1 (true)"));
  EXPECT_THAT(value(8, gguf_bytes(kHuge) + std::string(40, 'x')),
              throws("key at byte 47 has 18446744073709551615 bytes, must have at most"));
  EXPECT_THAT(value(9, list_of(4, kHuge)), throws("the length of key is 18446744073709551615"));
  EXPECT_THAT(value(9, list_of(14, 1)), throws("key has the type 14"));
  std::string nest;
  for (int i = 0; i < 5; ++i) nest += list_of(9, 1);
  EXPECT_THAT(value(9, nest + list_of(0, 0)),
              throws("key is a list of lists nested more than 4 deep"));
}

TEST(GgufTest, KeysMustBeShortPrintableAndDifferent) {
  const auto key = [](const std::string& name) {
    return [=] {
      GgufWriter writer;
      writer.add(name, 1U);
      writer.add("b", 1U);
      parse(writer.bytes());
    };
  };
  EXPECT_NO_THROW(key(std::string(65535, 'k'))());
  EXPECT_THAT(key(std::string(65536, 'k')), throws("a key at byte 32 has 65536 bytes, must have at "
                                                   "most 65535"));
  EXPECT_THAT(key(""), throws("a key at byte 24 is empty or not ASCII"));
  EXPECT_THAT(key("a\n"), throws("expected printable letters"));
  EXPECT_THAT(key("b"), throws("the key b occurs twice"));
}

TEST(GgufTest, AlignmentMustBeAPowerOfTwo) {
  const auto alignment = [](std::uint32_t type, const std::string& bytes) {
    return [=] {
      GgufWriter writer;
      writer.add("general.alignment", type, bytes);
      writer.add_tensor("a", {1}, {1});
      parse(writer.bytes());
    };
  };
  EXPECT_NO_THROW(alignment(4, gguf_bytes(8U))());
  EXPECT_THAT(alignment(4, gguf_bytes(0U)),
              throws("general.alignment is 0, must be a power of two"));
  EXPECT_THAT(alignment(4, gguf_bytes(24U)), throws("general.alignment is 24, must be a power"));
  EXPECT_THAT(alignment(10, gguf_bytes(1ULL << 40)), throws("at most 2^30"));
  EXPECT_THAT(alignment(8, gguf_text("32")), throws("general.alignment is \"32\""));
}

/// Returns a file with one tensor that has this entry, and 64 bytes of data.
auto entry(const std::string& name, const std::vector<std::uint64_t>& sizes, std::uint32_t type,
           std::uint64_t offset) {
  GgufWriter writer;
  writer.add_entry(name, sizes, type, offset);
  return [bytes = writer.bytes() + std::string(64, '\0')] { parse(bytes); };
}

TEST(GgufTest, TensorsMustHaveKnownTypesAndLieInTheFile) {
  EXPECT_NO_THROW(entry("t", {4, 4}, 0, 0)());
  EXPECT_NO_THROW(entry("t", {}, 0, 32)());
  EXPECT_NO_THROW(entry(std::string(64, 't'), {1}, 0, 0)());
  EXPECT_THAT(entry(std::string(65, 't'), {1}, 0, 0),
              throws("a tensor's name at byte 32 has 65 bytes, must have at most 64"));
  EXPECT_THAT(entry("", {1}, 0, 0), throws("a tensor's name at byte 24 is empty"));
  EXPECT_THAT(entry("t", {1, 1, 1, 1, 1}, 0, 0),
              throws("tensor 't' has 5 sizes, must have at most 4"));
  for (const std::uint32_t removed : {4U, 5U, 9U, 15U, 31U, 36U, 40U, 4000000000U}) {
    EXPECT_THAT(entry("t", {1}, removed, 0), throws("tensor 't' has the type "));
  }
  EXPECT_THAT(entry("t", {4, 4}, 0, 32), throws("has 64 bytes at offset 32 of the data, of which"));
  EXPECT_THAT(entry("t", {1}, 0, kHuge - 31), throws("truncated: tensor 't'"));
  EXPECT_THAT(entry("t", {1}, 0, 4), throws("is at offset 4, must be a multiple of 32"));
  EXPECT_THAT(entry("t", {1ULL << 40, 1ULL << 40}, 0, 0), throws("too large for any file"));
  EXPECT_THAT(entry("t", {1ULL << 62}, 0, 0), throws("too large for any file"));
  EXPECT_THAT(entry("t", {31}, 8, 0),
              throws("tensor 't' has rows of 31 values, must be a multiple of 32 in Q8_0"));
  EXPECT_NO_THROW(entry("t", {32}, 8, 0)());
}

TEST(GgufTest, TensorsMustNotOverlapOrShareNames) {
  const auto two = [](const std::string& name, std::uint64_t offset) {
    return [=] {
      GgufWriter writer;
      writer.add_entry("a", {12}, 0, 0);
      writer.add_entry(name, {1}, 0, offset);
      parse(writer.bytes() + std::string(128, '\0'));
    };
  };
  EXPECT_NO_THROW(two("b", 64)());
  EXPECT_NO_THROW(two("b", 96)()) << "a hole is allowed";
  EXPECT_THAT(two("b", 32), throws("tensor 'b' at offset 32 overlaps the one before it"));
  EXPECT_THAT(two("a", 64), throws("tensor 'a' occurs twice"));
}

RC_GTEST_PROP(GgufTest, DamageIsReadOrAnErrorButNoCrash, ()) {
  std::string bytes = small().bytes();
  const auto flips = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, bytes.size())));
  for (const std::size_t i : flips) bytes[i] = *rc::gen::arbitrary<char>();
  try {
    for (const StoredTensor& tensor : parse(bytes).tensors) {
      if (is_readable(tensor.dtype)) tensor_values<float>(tensor);
    }
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace addnorm::io
