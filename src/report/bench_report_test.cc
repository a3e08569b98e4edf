#include "report/bench_report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "report/terminal.h"

namespace addnorm::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// The matrices have 2²⁰ values, 4 MiB each.
bench::Result result_of(std::size_t kernel, double ms, std::optional<double> onednn_ms) {
  return {.job = {bench::all_kernels()[kernel], {1024, 1024}, "f32"},
          .options = {.threads = 2, .repeats = 9},
          .ms = ms,
          .copy_ms = 0.75,
          .onednn_ms = onednn_ms};
}

const bench::PythonRivalKind& kPyTorch = bench::python_rival_kinds()[0];
const bench::PythonRivalKind& kPyTorchAsIs = bench::python_rival_kinds()[1];
constexpr std::size_t kAddLayerNorm = 2, kAddRmsNorm = 3, kLongest = 6;

TEST(BenchReport, ShowsRatesAndRatios) {
  const std::string text = adapt(
      bench_text({result_of(kAddLayerNorm, 1, 2.5), result_of(kAddRmsNorm, 1.5, {})}, 80), {});
  EXPECT_THAT(text, HasSubstr("f32 on 2 threads, "));
  EXPECT_THAT(text, HasSubstr("add_layer_norm  1024x1024  1.00   75%   ×2.50\n"));
  EXPECT_THAT(text, HasSubstr("add_rms_norm    1024x1024  1.50   50%       –\n"));
}

TEST(BenchReport, FitsIntoEightyColumns) {
  bench::Result widest = result_of(kLongest, 1234.56, 12345.6);
  widest.job.shape = {65536, 16384};
  widest.rivals = {{kPyTorch, 123456}, {kPyTorchAsIs, 1234567}};
  EXPECT_THAT(adapt(bench_text({widest}, 80), {}), HasSubstr("65536x16384  1234.56    0%"));
}

TEST(BenchReport, ShowsPyTorchAsItIsWhereThatDiffers) {
  bench::Result result = result_of(kAddLayerNorm, 1, 2.5);
  result.rivals = {{kPyTorch, 3}, {kPyTorchAsIs, 4}};
  EXPECT_THAT(adapt(bench_text({result}, 80), {}), Not(HasSubstr("×4.00")));
  result.rivals[1].ms = 30;
  EXPECT_THAT(adapt(bench_text({result}, 80), {}), AllOf(HasSubstr("×3.00"), HasSubstr("×30.00")));
}

TEST(BenchReport, NamesTheWorstRatio) {
  EXPECT_EQ(worst_ratio({result_of(kAddLayerNorm, 1, 2.5), result_of(kAddRmsNorm, 9, {}),
                         result_of(kLongest, 2, 2.2)}),
            "Worst of 2: add_layer_norm_backward 1024x1024 f32, where oneDNN takes 1.10 times as "
            "long.\n");
  EXPECT_THAT(worst_ratio({result_of(kAddRmsNorm, 9, {})}), IsEmpty());
}

TEST(BenchReport, WritesTheJsonLine) {
  const auto json = nlohmann::json::parse(bench_json(result_of(kAddLayerNorm, 1, 2.5)));
  EXPECT_EQ(json["kernel"], "add_layer_norm");
  EXPECT_EQ(json["rows"], 1024);
  EXPECT_EQ(json["onednn_ms"], 2.5);
  EXPECT_TRUE(json["pytorch_ms"].is_null());
}

TEST(BenchReport, HasAColumnAndAKeyForEachRival) {
  bench::Result result = result_of(kAddLayerNorm, 2, 5);
  result.rivals = {{kPyTorch, 3}, {{"onnxruntime", "ONNX RT"}, {}}};
  EXPECT_THAT(adapt(bench_text({result}, 80), {}), AllOf(HasSubstr("oneDNN  PyTorch  ONNX RT\n"),
                                                         HasSubstr("×2.50    ×1.50        –\n")));
  const auto json = nlohmann::json::parse(bench_json(result));
  EXPECT_EQ(json["pytorch_ms"], 3);
  EXPECT_TRUE(json.contains("onnxruntime_ms") && json["onnxruntime_ms"].is_null());
  EXPECT_FALSE(json.contains("torch_compile_ms"));
}

}  // namespace
}  // namespace addnorm::report
