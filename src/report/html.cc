#include "report/html.h"

#include <fmt/format.h>

#include <iterator>

#include "report/text.h"
#include "report/theme.h"

namespace addnorm::report {
namespace {

// Each figure is drawn twice, for the width of a page and of a phone: its text stays legible on
// both.
constexpr std::string_view kPageCss =
    "body{margin:0 auto;padding:2rem 1rem;max-width:760px;background:var(--paper);"
    "color:var(--ink);overflow-wrap:break-word;font:17px/1.6 system-ui,sans-serif}"
    "h1{font-size:1.9rem;line-height:1.2;margin:0}"
    "h2{font-size:1.35rem;line-height:1.3;margin:2.5rem 0 .5rem}"
    ".lead{color:var(--muted);font-size:1.15rem}"
    "figure{margin:1.75rem 0;break-inside:avoid}"
    ".chart{display:block;max-width:100%;height:auto}"
    ".wide,.narrow{margin:0 -12px}"
    "figcaption{color:var(--muted);font-size:.9rem;line-height:1.45;margin-top:.5rem}"
    "figcaption b{color:var(--ink)}"
    ".scroll{overflow-x:auto}"
    "table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}"
    "th,td{padding:.3rem 1rem .3rem 0;text-align:left;white-space:nowrap;"
    "border-bottom:1px solid var(--grid)}"
    "th{border-color:var(--muted)}"
    "ul{margin:1rem 0;padding:0;list-style:none;font-size:.92rem;line-height:1.5}"
    "li{margin:.4rem 0;padding-left:1.2rem;text-indent:-1.2rem}"
    "a{color:inherit;text-decoration-color:var(--muted);text-underline-offset:.2em}"
    "td a{white-space:normal}"
    ".right{text-align:right}"
    ".strong{font-weight:600}.faint{color:var(--muted)}.good{color:var(--good)}.bad{color:var(--"
    "bad)}"
    ".positive{color:var(--c0)}.negative{color:var(--c1)}"
    ".narrow{display:none}"
    "@media screen and (max-width:600px){.wide{display:none}.narrow{display:block}}"
    "@media "
    "print{body{padding:0;font-size:11pt}.chart{max-width:88%}h2{break-after:avoid}.scroll{"
    "overflow:visible}}";

std::string_view class_of(Ink ink) {
  switch (ink) {
    case Ink::kPlain:
      return "plain";
    case Ink::kStrong:
      return "strong";
    case Ink::kFaint:
      return "faint";
    case Ink::kPositive:
      return "positive";
    case Ink::kNegative:
      return "negative";
    case Ink::kGood:
      return "good";
    case Ink::kBad:
      return "bad";
  }
  return "";
}

std::string_view class_of(Align align) {
  return align == Align::kRight ? "right" : "left";
}

std::string lead_of(const Cell& lead) {
  if (lead.text.empty()) return "";
  return fmt::format("<strong class=\"{}\">{}:</strong> ", class_of(lead.ink), escape(lead.text));
}

std::string text_of(const Cell& cell) {
  std::string text = escape(cell.text);
  if (cell.anchor.empty()) return text;
  return fmt::format("<a href=\"#{}\">{}</a>", escape(cell.anchor), text);
}

}  // namespace

HtmlPage::HtmlPage(std::string_view title, std::string_view lead) : title_(escape(title)) {
  body_ = fmt::format("<h1>{}</h1>\n<p class=\"lead\">{}</p>\n", title_, escape(lead));
}

HtmlPage& HtmlPage::section(std::string_view heading, std::string_view anchor) {
  const std::string id = anchor.empty() ? "" : fmt::format(" id=\"{}\"", escape(anchor));
  body_ += fmt::format("<h2{}>{}</h2>\n", id, escape(heading));
  return *this;
}

HtmlPage& HtmlPage::paragraph(std::string_view text, const Cell& lead) {
  body_ += fmt::format("<p>{}{}</p>\n", lead_of(lead), escape(text));
  return *this;
}

HtmlPage& HtmlPage::list(const std::vector<Item>& items) {
  body_ += "<ul>\n";
  for (const Item& item : items) {
    body_ += fmt::format("<li>{}{}</li>\n", lead_of(item.lead), escape(item.text));
  }
  body_ += "</ul>\n";
  return *this;
}

HtmlPage& HtmlPage::figure(const Chart& chart, std::string_view caption) {
  body_ += fmt::format(
      "<figure>\n<div class=\"wide\">{}</div>\n<div class=\"narrow\">{}</div>\n"
      "<figcaption>{}</figcaption>\n</figure>\n",
      to_svg(chart, kWideChart), to_svg(chart, kNarrowChart), escape(caption));
  return *this;
}

HtmlPage& HtmlPage::table(const Table& table, std::string_view caption) {
  const auto out = std::back_inserter(body_);
  fmt::format_to(out, "<figure>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<tr>");
  for (const Column& column : table.columns()) {
    fmt::format_to(out, "<th scope=\"col\" class=\"{}\">{}</th>", class_of(column.align),
                   escape(column.name));
  }
  for (const auto& row : table.rows()) {
    fmt::format_to(out, "</tr>\n<tr>");
    for (std::size_t c = 0; c < row.size(); ++c) {
      fmt::format_to(out, "<td class=\"{} {}\">{}</td>", class_of(table.columns()[c].align),
                     class_of(row[c].ink), text_of(row[c]));
    }
  }
  fmt::format_to(out, "</tr>\n</table></div>\n<figcaption>{}</figcaption>\n</figure>\n",
                 escape(caption));
  return *this;
}

std::string HtmlPage::str() const {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n<main>\n{}</main>\n</body>\n</"
      "html>\n",
      title_, theme_css(":root"), kPageCss, body_);
}

}  // namespace addnorm::report
