// Checks the includes of folders, and words that no file may contain.

#include <gmock/gmock.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace addnorm {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
namespace fs = std::filesystem;

/// Each folder of src/ with the folders that its target links, directly or indirectly.
using Graph = std::map<std::string, std::set<std::string>>;

/// Reads the direct links, such as "base: kernels:base nn:kernels,gemm"; a folder comes after the
/// folders that it links.
Graph read_graph(const std::string& text) {
  Graph graph;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t colon = word.find(':');
    std::set<std::string>& linked = graph[word.substr(0, colon)];
    std::istringstream folders(word.substr(colon + 1));
    for (std::string folder; std::getline(folders, folder, ',');) {
      linked.insert(folder);
      linked.merge(std::set<std::string>(graph.at(folder)));
    }
  }
  return graph;
}
const Graph& cmake_graph() {
  static const Graph graph = read_graph(ADDNORM_FOLDERS);
  return graph;
}

/// Whether a file of `folder` may include one of `used`. "addnorm" is include/addnorm, which all
/// may include. apps is not in the graph, and may include all of src/.
bool may_include(const std::string& folder, const std::string& used) {
  if (used == "addnorm" || used == folder) return true;
  if (folder == "addnorm" || !cmake_graph().contains(used)) return false;
  return !cmake_graph().contains(folder) || cmake_graph().at(folder).contains(used);
}

/// Returns the folder of a header or source, from its path below include/, src/ or apps/.
std::string folder_of(const fs::path& path) {
  auto part = path.begin();
  const bool in_public = *part == "addnorm" && std::distance(part, path.end()) > 2;
  return in_public ? std::next(part)->string() : part->string();
}

/// Returns the includes of `file` (relative to the root) that its target does not link. Tests may
/// also include tests/support.
std::vector<std::string> wrong_includes(const fs::path& file, const std::string& text) {
  static const std::regex include(R"re(#\s*include\s*"([^"/]+/[^"]*)")re");
  const bool is_test = file.string().ends_with("_test.cc");
  const std::string folder = folder_of(file.lexically_relative(*file.begin()));
  std::vector<std::string> wrong;
  for (std::sregex_iterator match(text.begin(), text.end(), include), end; match != end; ++match) {
    const std::string used = folder_of((*match)[1].str());
    if (is_test && used == "support") continue;
    if (!may_include(folder, used)) wrong.push_back((*match)[1]);
  }
  return wrong;
}

/// Returns the calls in `text` that read JSON without io/json.h.
std::vector<std::string> other_json_readers(const std::string& text) {
  static const std::regex call(
      R"((\w*[Jj]son|basic_json(<[^;]*>)?)::(parse|accept|sax_parse|from_\w+)\b|>>\s*json\b|)"
      R"(\b(simdjson|rapidjson|jsoncpp|Json::Value|boost/json|cJSON_Parse|json_tokener|yyjson)\b)");
  return {std::sregex_token_iterator(text.begin(), text.end(), call), {}};
}

/// Returns the marks of unfinished work in `text`.
std::vector<std::string> unfinished(const std::string& text) {
  // written so that it does not match itself
  static const std::regex mark(R"(\b(TO[D]O|FIX[M]E|X[X]X)\b)");
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

/// Returns every file below `folder`, except those that .gitignore and git itself exclude from the
/// repository.
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

TEST(LayeringTest, GraphFollowsLinks) {
  const Graph graph = read_graph("base: kernels:base c:kernels nn:kernels");
  EXPECT_THAT(graph.at("c"), ElementsAre("base", "kernels"));
  EXPECT_THAT(graph.at("base"), IsEmpty());
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
  EXPECT_THAT(wrong_includes("src/lab/trace.cc", "#include \"bench/norm_benchmark.h\"\n"),
              ElementsAre("bench/norm_benchmark.h"));
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

TEST(LayeringTest, EveryFolderOfSrcHasATarget) {
  for (const auto& entry : fs::directory_iterator(root() / "src")) {
    if (!entry.is_directory()) continue;
    EXPECT_TRUE(cmake_graph().contains(entry.path().filename())) << entry.path();
  }
}

TEST(LayeringTest, IncludesFollowLinks) {
  for (const char* top : {"include", "src", "apps"}) {
    for (const fs::path& path : files_below(root() / top)) {
      EXPECT_THAT(wrong_includes(path.lexically_relative(root()), read(path)), IsEmpty()) << path;
    }
  }
}

TEST(LayeringTest, OtherReadersOfJsonAreFound) {
  for (const char* text :
       {"Json::parse(text)", "nlohmann::json::parse(text)", "nlohmann::ordered_json::parse(text)",
        "io::Json::accept(text)", "Json::sax_parse(text, &handler)", "Json::from_cbor(bytes)",
        "nlohmann::basic_json<>::parse(text)", "stream >> json;",
        "#include <rapidjson/reader.h>"}) {
    EXPECT_THAT(other_json_readers(text), Not(IsEmpty())) << text;
  }
  EXPECT_THAT(other_json_readers("io::parse_json(text, file), Json::object(), Json::array()"),
              IsEmpty());
}

/// The limits of io/json.h must apply to all JSON from outside.
TEST(LayeringTest, JsonHasOneReader) {
  const fs::path reader = root() / "src/io/json.cc";
  EXPECT_THAT(other_json_readers(read(reader)), ElementsAre("Json::sax_parse"));
  for (const char* top : {"include", "src", "apps", "python", "fuzz", "bench"}) {
    for (const fs::path& path : files_below(root() / top)) {
      const bool is_source = path.extension() == ".cc" || path.extension() == ".h";
      if (!is_source || path == reader || path.string().ends_with("_test.cc")) continue;
      EXPECT_THAT(other_json_readers(read(path)), IsEmpty()) << path;
    }
  }
}

TEST(RepositoryTest, MarksOfUnfinishedWorkAreFound) {
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
    if (text.find('\0') != std::string::npos) continue;  // binary file
    EXPECT_THAT(unfinished(text), IsEmpty()) << path;
  }
}

}  // namespace
}  // namespace addnorm
