#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/svg.h"
#include "report/table.h"

namespace addnorm::report {

/// A page that needs nothing but itself: no script, no other file. All text is plain text.
///
///   const std::string html =
///       HtmlPage("Title", "Lead.").section("Loss").figure(chart, "Caption.").str();
class HtmlPage {
 public:
  HtmlPage(std::string_view title, std::string_view lead);

  /// `anchor`: what cells of tables lead to; or none.
  HtmlPage& section(std::string_view heading, std::string_view anchor = {});
  /// `lead`: words before the text, in bold with a colon; or none.
  HtmlPage& paragraph(std::string_view text, const Cell& lead = "");

  struct Item {
    Cell lead;  ///< as of a paragraph
    std::string text;
  };
  HtmlPage& list(const std::vector<Item>& items);
  HtmlPage& figure(const Chart& chart, std::string_view caption);
  HtmlPage& table(const Table& table, std::string_view caption);

  std::string str() const;

 private:
  std::string title_;
  std::string body_;
};

}  // namespace addnorm::report
