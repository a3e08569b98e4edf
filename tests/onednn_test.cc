// Tests which implementations of oneDNN compute our products and the benchmark's norms.

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/program.h"

namespace addnorm {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Result;
using ::testing::StartsWith;

/// A primitive with oneDNN's names: "matmul" and "brg:avx512_core".
struct Primitive {
  std::string kind, implementation;
  auto operator<=>(const Primitive&) const = default;
};

/// Returns the primitives in oneDNN's log; a line is …,exec,ENGINE,KIND,IMPLEMENTATION,….
std::set<Primitive> primitives_in(const std::string& log) {
  std::set<Primitive> primitives;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream text(line);
    std::vector<std::string> words;
    for (std::string word; std::getline(text, word, ',');) words.push_back(word);
    const auto exec = std::ranges::find(words, "exec");
    if (std::distance(exec, words.end()) > 3) primitives.insert({exec[2], exec[3]});
  }
  return primitives;
}

class OneDnnTest : public testing::ProgramTest {
 protected:
  OneDnnTest() { ::setenv("ONEDNN_VERBOSE", "1", 1); }
  ~OneDnnTest() override { ::unsetenv("ONEDNN_VERBOSE"); }

  /// Runs the program. Each kind of primitive must occur, and never with the plain loops that
  /// oneDNN calls its reference.
  void expect_fast(const std::string& words, const std::vector<std::string>& kinds) const {
    const Result result = run(words);
    ASSERT_EQ(result.status, 0) << result.err;
    const std::set<Primitive> primitives = primitives_in(result.out);
    for (const std::string& kind : kinds) {
      std::vector<std::string> implementations;
      for (const Primitive& primitive : primitives) {
        if (primitive.kind == kind) implementations.push_back(primitive.implementation);
      }
      EXPECT_THAT(implementations, Not(IsEmpty())) << kind << " of " << words;
      EXPECT_THAT(implementations, Each(Not(StartsWith("ref")))) << kind << " of " << words;
    }
  }
};

TEST_F(OneDnnTest, ReadsWhatOneDnnReports) {
  EXPECT_EQ(primitives_in("onednn_verbose,exec,cpu,matmul,ref:any,undef,src_f32\n"
                          "onednn_verbose,v1,primitive,exec,cpu,matmul,brg:avx512_core,undef\n"
                          "onednn_verbose,info,cpu,runtime:OpenMP\n"),
            (std::set<Primitive>{{"matmul", "ref:any"}, {"matmul", "brg:avx512_core"}}));
}

TEST_F(OneDnnTest, NoProductIsByReference) {
  write("text.txt", std::string(5000, 'a') + std::string(5000, 'b'));
  for (const std::string dtype : {"f32", "bf16"}) {
    expect_fast(
        "train --text text.txt --preset tiny --steps 2 --dtype " + dtype + " --out " + dtype,
        {"matmul"});
  }
}

TEST_F(OneDnnTest, NoNormOfTheBenchmarkIsByReference) {
  expect_fast(
      "bench --rival none --repeats 1 --kernel layer_norm,add_layer_norm,add_layer_norm_backward "
      "--shape 64x768,33x100,1x8192 --dtype f32,bf16",
      {"layer_normalization", "binary"});
}

}  // namespace
}  // namespace addnorm
