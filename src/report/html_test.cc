#include "report/html.h"

#include <gmock/gmock.h>

namespace addnorm::report {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string page() {
  Table table({{"name", Align::kLeft}, {"loss < 3"}});
  table.add_row({"pre & post", Cell("2.3", Ink::kGood)});
  const Chart chart{
      .title = "Loss", .x = {"step"}, .y = {"loss"}, .series = {{"a", {0, 1}, {2, 1}}}};
  return HtmlPage("A <title>", "Lead.")
      .section("First")
      .paragraph("1 < 2")
      .figure(chart, "Caption & more.")
      .table(table, "Numbers.")
      .str();
}

TEST(HtmlPage, NeedsNothingButItself) {
  EXPECT_THAT(page(), Not(HasSubstr("<script")));
  EXPECT_THAT(page(), Not(HasSubstr("href=")));
  EXPECT_THAT(page(), Not(HasSubstr("src=")));
  EXPECT_THAT(page(), Not(HasSubstr("url(")));
}

TEST(HtmlPage, EscapesAllText) {
  EXPECT_THAT(page(), HasSubstr("<title>A &lt;title&gt;</title>"));
  EXPECT_THAT(page(), HasSubstr("<h1>A &lt;title&gt;</h1>"));
  EXPECT_THAT(page(), HasSubstr("<p>1 &lt; 2</p>"));
  EXPECT_THAT(page(), HasSubstr("<figcaption>Caption &amp; more.</figcaption>"));
  EXPECT_THAT(page(), HasSubstr("<th scope=\"col\" class=\"right\">loss &lt; 3</th>"));
  EXPECT_THAT(page(), HasSubstr("<td class=\"left plain\">pre &amp; post</td>"));
}

TEST(HtmlPage, HasEachFigureForAPageAndForAPhone) {
  EXPECT_THAT(page(), HasSubstr("viewBox=\"0 0 760 "));
  EXPECT_THAT(page(), HasSubstr("viewBox=\"0 0 360 "));
}

TEST(HtmlPage, KeepsTheInkOfCells) {
  EXPECT_THAT(page(), HasSubstr("<td class=\"right good\">2.3</td>"));
}

TEST(HtmlPage, LeadsFromTablesToSections) {
  Table table({{"figure"}});
  table.add_row({{"A & B", Ink::kPlain, "a-b"}});
  const std::string html =
      HtmlPage("Title", "Lead.").table(table, "").section("A and B", "a-b").str();
  EXPECT_THAT(html, HasSubstr("<a href=\"#a-b\">A &amp; B</a>"));
  EXPECT_THAT(html, HasSubstr("<h2 id=\"a-b\">A and B</h2>"));
}

TEST(HtmlPage, ListsItems) {
  const std::string html =
      HtmlPage("Title", "Lead.").list({{{"outside", Ink::kBad}, "1 < 2"}, {"", "plain"}}).str();
  EXPECT_THAT(html, HasSubstr("<li><strong class=\"bad\">outside:</strong> 1 &lt; 2</li>"));
  EXPECT_THAT(html, HasSubstr("<li>plain</li>"));
}

}  // namespace
}  // namespace addnorm::report
