#include "report/table.h"

#include <gtest/gtest.h>

#include "addnorm/error.h"
#include "report/terminal.h"

namespace addnorm::report {
namespace {

Table placements() {
  Table table({{"placement", Align::kLeft}, {"loss"}, {"verdict", Align::kLeft}});
  table.add_row({"pre", "2.3 ± 0.1", Cell("trains", Ink::kGood)});
  table.add_row({"post", "nan", Cell("fails", Ink::kBad)});
  return table;
}

TEST(Table, AlignsColumnsWhateverTheirBytes) {
  EXPECT_EQ(adapt(to_text(placements(), 80), {}),
            "placement       loss  verdict\n"
            "─────────────────────────────\n"
            "pre        2.3 ± 0.1  trains\n"
            "post             nan  fails\n");
}

TEST(Table, TurnsIntoListsRatherThanBeCut) {
  EXPECT_EQ(adapt(to_text(placements(), 28), {}),
            "pre\n"
            "  loss       2.3 ± 0.1\n"
            "  verdict    trains\n"
            "post\n"
            "  loss       nan\n"
            "  verdict    fails\n");
}

TEST(Table, RefusesARowOfAnotherLength) {
  EXPECT_THROW(placements().add_row({"pre"}), Error);
}

}  // namespace
}  // namespace addnorm::report
