#include "report/accuracy_report.h"

#include <gmock/gmock.h>

#include "report/terminal.h"
#include "report/text.h"

namespace addnorm::report {
namespace {

using ::testing::HasSubstr;

TEST(AccuracyReport, ShowsEachErrorInItsColumn) {
  const bench::AccuracyResult result{.job = {.features = 768, .mean = 1e4},
                                     .ours = {1e-6, 2e-7},
                                     .onednn = bench::NormErrors{3e-4, 4e-5},
                                     .pytorch = {}};
  const std::string text = accuracy_text({result}, 80);
  EXPECT_THAT(
      adapt(text, {}),
      HasSubstr("768     10000    1  1.0e-06  3.0e-04        –  2.0e-07  4.0e-05        –"));
  EXPECT_THAT(text, HasSubstr(paint(Ink::kBad, "3.0e-04")));
}

}  // namespace
}  // namespace addnorm::report
