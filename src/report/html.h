#pragma once

#include <string>
#include <string_view>

#include "report/svg.h"
#include "report/table.h"

namespace addnorm {

/// A page that needs nothing but itself: no script, no other file. All text is plain text.
///
///   const std::string html =
///       HtmlPage("Title", "Lead.").section("Loss").figure(chart, "Caption.").str();
class HtmlPage {
 public:
  HtmlPage(std::string_view title, std::string_view lead);

  HtmlPage& section(std::string_view heading);
  /// `lead`: words before the text, in bold with a colon; or none.
  HtmlPage& paragraph(std::string_view text, std::string_view lead = {});
  HtmlPage& figure(const Chart& chart, std::string_view caption);
  HtmlPage& table(const Table& table, std::string_view caption);

  std::string str() const;

 private:
  std::string title_;
  std::string body_;
};

}  // namespace addnorm
