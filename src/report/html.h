#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/svg.h"
#include "report/table.h"

namespace addnorm::report {

/// A self-contained page: no script, no other file. All arguments are plain text.
///
///   const std::string html =
///       HtmlPage("Title", "Lead.").section("Loss").figure(chart, "Caption.").str();
class HtmlPage {
 public:
  HtmlPage(std::string_view title, std::string_view lead);

  /// `anchor` is the link target for cells of tables, or empty.
  HtmlPage& section(std::string_view heading, std::string_view anchor = {});
  /// `lead` is a prefix of the text, in bold with a colon, or empty.
  HtmlPage& paragraph(std::string_view text, const Cell& lead = "");

  struct Item {
    Cell lead;  ///< as in paragraph()
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
