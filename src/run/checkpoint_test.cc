#include "run/checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "addnorm/error.h"
#include "io/file.h"

namespace addnorm::run {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() : first_(3, 5), second_(1, 7) {
    float value = 0.5F;
    for (Matrix<float>* matrix : {&first_, &second_}) {
      for (float& v : matrix->flat()) v = value = value * -1.37F + 0.1F;
    }
    write_checkpoint(file_, {.config = {.width = 96}, .steps = 12, .text = ~7ULL}, matrices());
  }
  ~CheckpointTest() override { std::filesystem::remove(file_); }

  std::vector<NamedMatrix<float>> matrices() { return {{"first", &first_}, {"second", &second_}}; }
  static std::vector<float> values(const Matrix<float>& matrix) {
    return {matrix.flat().begin(), matrix.flat().end()};
  }
  /// Writes the bytes to the file, and checks that reading throws an Error.
  void expect_refused(const std::string& bytes) {
    io::write_files({{file_, bytes}});
    EXPECT_THROW(Checkpoint{file_}, Error);
  }

  std::string file_ = ::testing::TempDir() + "addnorm-checkpoint-" + std::to_string(::getpid());
  Matrix<float> first_, second_;
};

TEST_F(CheckpointTest, GivesBackWhatWasWritten) {
  const auto expected = std::pair{values(first_), values(second_)};
  first_.fill(0);
  second_.fill(0);
  const Checkpoint checkpoint(file_);
  checkpoint.restore(matrices());
  EXPECT_EQ(std::pair(values(first_), values(second_)), expected);
  EXPECT_EQ(checkpoint.state().steps, 12);
  EXPECT_EQ(checkpoint.state().text, ~7ULL);
  EXPECT_EQ(checkpoint.state().config, RunConfig{.width = 96});
}

TEST_F(CheckpointTest, RefusesAFileThatIsCut) {
  const std::string whole = io::read_file(file_);
  for (std::size_t size = 0; size < whole.size(); size += 13) expect_refused(whole.substr(0, size));
  expect_refused(whole.substr(0, whole.size() - 1));
  expect_refused(whole + '\0');
}

TEST_F(CheckpointTest, RefusesAFlippedBitAnywhere) {
  const std::string whole = io::read_file(file_);
  for (std::size_t byte = 0; byte < whole.size(); ++byte) {
    std::string bytes = whole;
    bytes[byte] ^= 4;
    expect_refused(bytes);
  }
}

TEST_F(CheckpointTest, RefusesWhatIsNoCheckpoint) {
  io::write_safetensors(file_, {});
  EXPECT_THAT([&] { Checkpoint{file_}; }, ThrowsMessage<Error>(HasSubstr("is not a checkpoint")));
  io::write_safetensors(file_, {}, {{"format", "addnorm checkpoint 9"}});
  EXPECT_THAT([&] { Checkpoint{file_}; },
              ThrowsMessage<Error>(HasSubstr("is a \"addnorm checkpoint 9\"")));
  EXPECT_THAT([] { Checkpoint{"no-such-file"}; },
              ThrowsMessage<Error>(HasSubstr("cannot be read")));
}

/// A checkpoint without tensors whose fingerprint matches its settings.
TEST_F(CheckpointTest, RefusesSettingsOfDeepJson) {
  std::map<std::string, std::string> metadata = {{"config", "{\"x\":" + std::string(100'000, '[')},
                                                 {"format", "addnorm checkpoint 1"},
                                                 {"steps", "1"},
                                                 {"text", "0"}};
  std::uint64_t content = 0;
  for (const auto& [key, text] : metadata) content = fingerprint(text, fingerprint(key, content));
  metadata["content"] = fmt::format("{:016x}", content);
  io::write_safetensors(file_, {}, metadata);
  EXPECT_THAT([&] { Checkpoint{file_}; },
              ThrowsMessage<Error>(HasSubstr("config: column 37: nested more than 32 deep")));
}

TEST_F(CheckpointTest, AnotherShapeChangesNothing) {
  const Checkpoint checkpoint(file_);
  Matrix<float> other(7, 1);
  first_.fill(3);
  EXPECT_THAT(
      [&] {
        checkpoint.restore(std::vector<NamedMatrix<float>>{{"first", &first_}, {"second", &other}});
      },
      ThrowsMessage<Error>(HasSubstr("tensor 'second' has shape (1, 7)")));
  EXPECT_THAT(
      [&] {
        checkpoint.restore(std::vector<NamedMatrix<float>>{{"first", &first_}, {"third", &other}});
      },
      ThrowsMessage<Error>(HasSubstr("no tensor 'third'")));
  EXPECT_EQ(values(first_), std::vector<float>(15, 3.0F));
}

TEST(Fingerprint, TellsApart) {
  const std::string text = "0123456789abcdef";
  EXPECT_EQ(fingerprint(text), fingerprint(text));
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_NE(fingerprint(text.substr(0, size)), fingerprint(text)) << size;
  }
  EXPECT_NE(fingerprint(std::string("a\0", 2)), fingerprint("a"));
  EXPECT_NE(fingerprint("89abcdef01234567"), fingerprint(text));
}

}  // namespace
}  // namespace addnorm::run
