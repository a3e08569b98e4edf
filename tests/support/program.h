// The program as a child process.

#pragma once

#include <gmock/gmock.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "io/file.h"
#include "io/temporary_folder.h"

namespace addnorm::testing {

inline std::vector<std::string> split(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

/// The program's exit status and output.
struct Result {
  int status = -1;
  std::string out;
  std::string err;
};

/// Replaces this process by the program, with the given files as its outputs.
[[noreturn]] inline void become_program(const std::filesystem::path& folder,
                                        const std::vector<std::string>& arguments, int out,
                                        int err) {
  std::vector<std::string> words{ADDNORM_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  if (::chdir(folder.c_str()) == 0 && ::dup2(out, 1) == 1 && ::dup2(err, 2) == 2) {
    ::execv(ADDNORM_PROGRAM, pointers.data());
  }
  std::_Exit(99);
}

inline int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

inline std::string read_to_end(int file) {
  std::string text;
  std::array<char, 4096> chunk;
  for (ssize_t n; (n = ::read(file, chunk.data(), chunk.size())) > 0;) text.append(chunk.data(), n);
  return text;
}

/// A folder in which the program runs as a child process. Tests check its output, its exit status
/// and the files that it leaves.
class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() {
    // The environment that the program's text depends on.
    ::setenv("LC_ALL", "C.UTF-8", 1);
    ::setenv("COLUMNS", "80", 1);
    ::setenv("TERM", "xterm-256color", 1);
    ::unsetenv("NO_COLOR");
  }

  Result run(const std::vector<std::string>& arguments) const {
    std::FILE* out = std::tmpfile();
    std::FILE* err = std::tmpfile();
    const pid_t child = ::fork();
    if (child == 0) become_program(folder_, arguments, ::fileno(out), ::fileno(err));
    Result result{.status = wait_for(child)};
    for (auto& [file, text] : {std::pair{out, &result.out}, {err, &result.err}}) {
      std::rewind(file);
      *text = read_to_end(::fileno(file));
      std::fclose(file);
    }
    return result;
  }
  Result run(const std::string& words) const { return run(split(words)); }

  /// Returns the program's output on a terminal.
  std::string run_on_terminal(const std::string& words) const {
    int terminal = -1;
    const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
    if (child == 0) become_program(folder_, split(words), 1, 2);
    const std::string text = read_to_end(terminal);
    ::close(terminal);
    EXPECT_EQ(wait_for(child), 0);
    return text;
  }

  /// Runs words that must succeed; standard output must be one JSON document.
  nlohmann::ordered_json run_json(const std::string& words) const {
    const Result result = run(words);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, ::testing::IsEmpty());
    return nlohmann::ordered_json::parse(result.out);
  }

  /// Runs words that must fail, with status 2, one line that contains `part`, and no other output.
  void expect_error(const std::vector<std::string>& arguments, const std::string& part) const {
    const auto before = contents();
    const Result result = run(arguments);
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.out, ::testing::IsEmpty());
    EXPECT_THAT(result.err,
                ::testing::AllOf(::testing::StartsWith("addnorm"), ::testing::HasSubstr(part)));
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
    EXPECT_EQ(contents(), before) << "files were written";
  }

  void write(const std::string& name, const std::string& bytes) const {
    io::write_files({{(folder_ / name).string(), bytes}});
  }
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      files[entry.path().filename()] = entry.is_directory() ? "" : io::read_file(entry.path());
    }
    return files;
  }

  io::TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

}  // namespace addnorm::testing
