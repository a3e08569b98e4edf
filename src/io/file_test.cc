#include "io/file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "addnorm/error.h"
#include "io/temporary_folder.h"

namespace addnorm::io {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

/// A test with its own folder.
class FileTest : public ::testing::Test {
 protected:
  FileTest() { fs::permissions(folder_, fs::perms::all); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::set<std::string> names() const {
    std::set<std::string> result;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      result.insert(entry.path().filename());
    }
    return result;
  }

  /// Prints the error of `action` in a process without root's permissions.
  template <typename Action>
  static void print_error_as_nobody(const Action& action) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::seteuid(kNobody) != 0) std::_Exit(1);
    try {
      action();
    } catch (const Error& error) {
      std::fputs(error.what(), stderr);
    }
    std::_Exit(0);
  }

  TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(FileTest, WhatIsWrittenIsRead) {
  const std::string bytes("a\0b\r\n\xff", 6);
  write_files({{path("a"), bytes}, {path("empty"), ""}});
  EXPECT_EQ(read_file(path("a")), bytes);
  EXPECT_EQ(read_file(path("empty")), "");
}

TEST_F(FileTest, ReadsFilesOfManyChunks) {
  std::string bytes(3'000'001, '?');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i >> 7);
  write_files({{path("large"), bytes}});
  EXPECT_TRUE(read_file(path("large")) == bytes);
}

TEST_F(FileTest, ReadsAPipe) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::thread writer([&] {
    std::FILE* pipe = std::fopen(path("pipe").c_str(), "wb");
    std::fputs("from a pipe", pipe);
    std::fclose(pipe);
  });
  EXPECT_EQ(read_file(path("pipe")), "from a pipe");
  writer.join();
}

TEST_F(FileTest, RefusesWhatHasNoEnd) {
  EXPECT_THAT([] { read_file("/dev/zero"); },
              ThrowsMessage<Error>(HasSubstr("/dev/zero: gives more than 1073741824 bytes")));
  limit_pipes(3'000'000);
  EXPECT_THAT([] { read_file("/dev/zero"); },
              ThrowsMessage<Error>(HasSubstr("/dev/zero: gives more than 3000000 bytes")));
  limit_pipes(std::uint64_t{1} << 30);
}

TEST_F(FileTest, AppendsToNothingThatIsPlanted) {
  write_files({{path("secret"), "old"}});
  fs::create_symlink("secret", path("link"));
  fs::create_symlink("new", path("loose"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const char* name : {"link", "loose"}) {
    EXPECT_THAT([&] { append_file(path(name), "x"); },
                ThrowsMessage<Error>(HasSubstr("is a link")));
  }
  EXPECT_THROW(append_file(path("pipe"), "x"), Error);
  EXPECT_THROW(append_file("/dev/null", "x"), Error);
  EXPECT_EQ(read_file(path("secret")), "old");
  EXPECT_FALSE(fs::exists(path("new")));
}

TEST_F(FileTest, KnowsWhatIsMappedWhere) {
  write_files({{path("a"), "aaaa"}, {path("b"), "bbbb"}});
  const FileBytes a = map_file(path("a"));
  const char* of_b = nullptr;
  {
    const FileBytes b = map_file(path("b"));
    of_b = b.view.data();
    EXPECT_EQ(mapped_file_at(of_b + 3), path("b"));
    EXPECT_EQ(mapped_file_at(a.view.data()), path("a"));
    EXPECT_EQ(mapped_file_at(&of_b), nullptr);
  }
  EXPECT_EQ(mapped_file_at(of_b), nullptr);
  EXPECT_EQ(mapped_file_at(a.view.data()), path("a"));
}

TEST_F(FileTest, TextFilesAreJoinedAsBytes) {
  write_files({{path("a"), "one\xc3"}, {path("b"), "\xa9two\n"}});
  EXPECT_EQ(read_text({path("a"), path("b"), path("a")}), "one\xc3\xa9two\none\xc3");
  EXPECT_EQ(read_text({}), "");
}

TEST_F(FileTest, ReadingNamesTheFileAndTheReason) {
  EXPECT_THAT(
      [&] { read_file(path("missing")); },
      ThrowsMessage<Error>(AllOf(HasSubstr("missing: cannot be read"), HasSubstr("No such file"))));
  EXPECT_THAT([&] { read_file(folder_); }, ThrowsMessage<Error>(HasSubstr("Is a directory")));
}

TEST_F(FileTest, UnreadableFileIsNamed) {
  write_files({{path("secret"), "x"}});
  fs::permissions(path("secret"), fs::perms::none);
  EXPECT_EXIT(print_error_as_nobody([&] { read_file(path("secret")); }),
              ::testing::ExitedWithCode(0), "secret: cannot be read: Permission denied");
}

TEST_F(FileTest, WritingReplacesAndLeavesNothingElse) {
  write_files({{path("a"), "old"}});
  write_files({{path("a"), "new"}, {path("b"), "new"}});
  EXPECT_EQ(read_file(path("a")), "new");
  EXPECT_THAT(names(), ElementsAre("a", "b"));
}

TEST_F(FileTest, NewFilesHaveTheModeOfTheUmask) {
  const mode_t before = ::umask(027);
  write_files({{path("a"), "x"}});
  ::umask(before);
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms{0640});
}

TEST_F(FileTest, ReplacedFilesKeepTheirModeAndOwner) {
  constexpr uid_t kNobody = 65534;
  const bool is_root = ::geteuid() == 0;
  for (const mode_t mode : {0600, 0664, 0400, 0755}) {
    write_files({{path("a"), "old"}});
    ASSERT_EQ(::chmod(path("a").c_str(), mode), 0);
    if (is_root) {
      ASSERT_EQ(::chown(path("a").c_str(), kNobody, kNobody), 0);
    }
    write_files({{path("a"), "new"}});
    write_file(path("a"), {{"newer"}});
    struct stat found {};
    ASSERT_EQ(::stat(path("a").c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 07777, mode);
    const uid_t owner = is_root ? kNobody : ::geteuid();
    EXPECT_EQ(found.st_uid, owner);
    if (is_root) {
      EXPECT_EQ(found.st_gid, kNobody);
    }
    EXPECT_EQ(read_file(path("a")), "newer");
  }
}

TEST_F(FileTest, SyncingAllowsAnAbsentFileAndRefusesALink) {
  sync_file(path("absent"));
  write_files({{path("a"), "x"}});
  sync_file(path("a"));
  fs::create_symlink("a", path("link"));
  EXPECT_THAT([&] { sync_file(path("link")); }, ThrowsMessage<Error>(HasSubstr("link: cannot")));
}

TEST_F(FileTest, LinkIsFollowed) {
  write_files({{path("real"), "old"}});
  fs::create_symlink("real", path("link"));
  write_files({{path("link"), "new"}});
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("real")), "new");
}

TEST_F(FileTest, NoOutputIsWrittenWhereOneFails) {
  write_files({{path("a"), "old"}});
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{1000, limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THAT(
      [&] {
        write_files({{path("a"), "new"}, {path("b"), std::string(5000, 'b')}});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("b: cannot be written"), HasSubstr("File too large"))));
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(read_file(path("a")), "old");
  EXPECT_THAT(names(), ElementsAre("a"));
}

// In a sticky folder an unprivileged user can create files, but not replace those of others.
TEST_F(FileTest, RenamesAreUndoneWhereALaterOneFails) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to make files of two users";
  write_files({{path("a"), "old"}, {path("foreign"), "old"}});
  ASSERT_EQ(::chown(path("a").c_str(), 65534, static_cast<gid_t>(-1)), 0);
  fs::permissions(folder_, fs::perms::all | fs::perms::sticky_bit);
  EXPECT_EXIT(print_error_as_nobody([&] {
                write_files({{path("a"), "new"}, {path("b"), "new"}, {path("foreign"), "new"}});
              }),
              ::testing::ExitedWithCode(0), "foreign: cannot be written: .* not permitted");
  EXPECT_EQ(read_file(path("a")), "old");
  EXPECT_EQ(read_file(path("foreign")), "old");
  EXPECT_THAT(names(), ElementsAre("a", "foreign"));
}

TEST_F(FileTest, CheckLeavesNothing) {
  write_files({{path("a"), "old"}});
  check_outputs({path("a"), path("b")});
  EXPECT_EQ(read_file(path("a")), "old");
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(FileTest, CheckNamesAMissingFolder) {
  EXPECT_THAT(
      [&] {
        check_outputs({path("b"), path("no/such/y.npy")});
      },
      ThrowsMessage<Error>(
          AllOf(HasSubstr("y.npy: there is no folder"), HasSubstr(path("no/such")))));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(FileTest, CheckNamesAFolderThatCannotBeWritten) {
  fs::permissions(folder_, fs::perms{0555});
  EXPECT_EXIT(print_error_as_nobody([&] { check_outputs({path("y.npy")}); }),
              ::testing::ExitedWithCode(0), "y.npy: the folder .* cannot be written");
}

TEST_F(FileTest, CheckRefusesWhatIsNoRegularFile) {
  EXPECT_THAT([&] { check_outputs({folder_.string()}); },
              ThrowsMessage<Error>(HasSubstr("is a folder")));
  EXPECT_THAT([] { check_outputs({"/dev/null"}); },
              ThrowsMessage<Error>(HasSubstr("/dev/null: is not a regular file")));
  EXPECT_THAT([] { check_outputs({""}); }, ThrowsMessage<Error>(HasSubstr("''")));
}

TEST_F(FileTest, CheckRefusesOneFileForTwoOutputs) {
  fs::create_directory(path("sub"));
  fs::create_symlink("sub", path("same"));
  write_files({{path("sub/a"), "old"}});
  fs::create_symlink("sub/a", path("link"));
  const auto error = ThrowsMessage<Error>(HasSubstr("is the same file as"));
  EXPECT_THAT([&] { check_outputs({path("b"), path("sub/../b")}); }, error);
  EXPECT_THAT([&] { check_outputs({path("sub/b"), path("same/b")}); }, error);
  EXPECT_THAT([&] { check_outputs({path("link"), path("sub/a")}); }, error);
  EXPECT_THAT([&] { write_files({{path("b"), "1"}, {path("b"), "2"}}); }, error);
  EXPECT_THAT(names(), ElementsAre("link", "same", "sub"));
}

}  // namespace
}  // namespace addnorm::io
