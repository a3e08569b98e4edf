// The order of the folders, and the words that no file may hold.

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace addnorm {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSubsetOf;
namespace fs = std::filesystem;

// Lowest first. "addnorm" is include/addnorm, but include/addnorm/nn is "nn"; an app is on no list
// and stands above all.
constexpr std::array<std::string_view, 16> kFloors{
    "addnorm", "base", "kernels", "c",   "gemm", "nn",  "train",  "probe",
    "theory",  "io",   "model",   "run", "race", "lab", "doctor", "report"};

std::ptrdiff_t floor_of(std::string_view folder) {
  return std::find(kFloors.begin(), kFloors.end(), folder) - kFloors.begin();
}

/// The folder in whose floor a header or source stands, by its path below include/, src/ or apps/.
std::string folder_of(const fs::path& path) {
  auto part = path.begin();
  const bool in_public = *part == "addnorm" && std::distance(part, path.end()) > 2;
  return in_public ? std::next(part)->string() : part->string();
}

/// What `file` (from the root) includes although it is neither its own folder's nor of a lower
/// floor. Tests may also include tests/support.
std::vector<std::string> wrong_includes(const fs::path& file, const std::string& text) {
  static const std::regex include(R"re(#\s*include\s*"([^"/]+/[^"]*)")re");
  const bool is_test = file.string().ends_with("_test.cc");
  const std::string folder = folder_of(file.lexically_relative(*file.begin()));
  std::vector<std::string> wrong;
  for (std::sregex_iterator match(text.begin(), text.end(), include), end; match != end; ++match) {
    const std::string used = folder_of((*match)[1].str());
    if (used == folder || (is_test && used == "support")) continue;
    if (floor_of(used) >= floor_of(folder)) wrong.push_back((*match)[1]);
  }
  return wrong;
}

/// The marks of unfinished work in `text`.
std::vector<std::string> unfinished(const std::string& text) {
  static const std::regex mark(R"(\b(TO[D]O|FIX[M]E|X[X]X)\b)");  // must not find itself
  return {std::sregex_token_iterator(text.begin(), text.end(), mark), {}};
}

const fs::path& root() {
  static const fs::path path = ADDNORM_SOURCE_DIR;
  return path;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Every file below `folder`, without what .gitignore and git itself keep out of the repository.
std::vector<fs::path> files_below(const fs::path& folder) {
  static const std::set<fs::path> skipped{".git",        "build",        "out", ".cache",
                                          "__pycache__", "node_modules", "dist"};
  std::vector<fs::path> files;
  for (auto it = fs::recursive_directory_iterator(folder); it != fs::end(it); ++it) {
    if (skipped.contains(it->path().filename())) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file()) {
      files.push_back(it->path());
    }
  }
  return files;
}

TEST(LayeringTest, CheckerRejectsUpAndAside) {
  EXPECT_THAT(wrong_includes("src/kernels/check.h",
                             "#include \"nn/linear.h\"\n#  include \"cli/main.h\"\n"),
              ElementsAre("nn/linear.h", "cli/main.h"));
  EXPECT_THAT(wrong_includes("include/addnorm/norm.h", "#include \"base/require.h\"\n"),
              ElementsAre("base/require.h"));
  EXPECT_THAT(wrong_includes("include/addnorm/nn/norm.h", "#include \"addnorm/train/adamw.h\"\n"),
              ElementsAre("addnorm/train/adamw.h"));
  EXPECT_THAT(wrong_includes("src/base/parallel.h", "#include \"addnorm/nn/linear.h\"\n"),
              ElementsAre("addnorm/nn/linear.h"));
  EXPECT_THAT(wrong_includes("src/nn/norm.cc", "#include \"../lab/study.h\"\n"),
              ElementsAre("../lab/study.h"));
  EXPECT_THAT(wrong_includes("apps/server/main.cc", "#include \"cli/options.h\"\n"),
              ElementsAre("cli/options.h"));
  EXPECT_THAT(wrong_includes("src/nn/norm.cc", "#include \"support/compare.h\"\n"),
              ElementsAre("support/compare.h"));
}

TEST(LayeringTest, CheckerAcceptsDownAndOwn) {
  EXPECT_THAT(wrong_includes("src/nn/norm.cc",
                             "#include <lab/lab.h>\n#include \"nn/linear.h\"\n"
                             "#include \"base/require.h\"\n#include \"addnorm/view.h\"\n"),
              IsEmpty());
  EXPECT_THAT(wrong_includes("apps/cli/main.cc",
                             "#include \"report/table.h\"\n#include \"cli/options.h\"\n"),
              IsEmpty());
  EXPECT_THAT(wrong_includes("src/nn/norm_test.cc", "#include \"support/compare.h\"\n"), IsEmpty());
}

TEST(LayeringTest, EveryFolderOfSrcHasAFloor) {
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(root() / "src")) {
    if (entry.is_directory()) folders.push_back(entry.path().filename());
  }
  EXPECT_THAT(folders, Contains("base"));
  EXPECT_THAT(folders, IsSubsetOf(kFloors));
}

TEST(LayeringTest, IncludesPointDown) {
  for (const char* top : {"include", "src", "apps"}) {
    for (const fs::path& path : files_below(root() / top)) {
      EXPECT_THAT(wrong_includes(path.lexically_relative(root()), read(path)), IsEmpty()) << path;
    }
  }
}

TEST(RepositoryTest, MarksOfUnfinishedWorkAreSeen) {
  EXPECT_THAT(unfinished("// TO"
                         "DO: more\n# FIX"
                         "ME\n"),
              ElementsAre("TO"
                          "DO",
                          "FIX"
                          "ME"));
  EXPECT_THAT(unfinished("mktemp addnorm.X"
                         "XXXXX"),
              IsEmpty());
}

TEST(RepositoryTest, HoldsNoMarksOfUnfinishedWork) {
  const std::vector<fs::path> files = files_below(root());
  EXPECT_THAT(files, Contains(root() / "CMakeLists.txt"));
  for (const fs::path& path : files) {
    const std::string text = read(path);
    if (text.find('\0') != std::string::npos) continue;  // binary
    EXPECT_THAT(unfinished(text), IsEmpty()) << path;
  }
}

}  // namespace
}  // namespace addnorm
