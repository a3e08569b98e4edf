#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/require.h"

namespace addnorm::report {
namespace {

constexpr int kGap = 2;

std::vector<int> widths_of(const Table& table) {
  std::vector<int> widths;
  for (std::size_t c = 0; c < table.columns().size(); ++c) {
    int width = display_width(table.columns()[c].name);
    for (const auto& row : table.rows()) width = std::max(width, display_width(row[c].text));
    widths.push_back(width);
  }
  return widths;
}

std::string draw_row(const Table& table, const std::vector<Cell>& row,
                     const std::vector<int>& widths) {
  std::string line;
  for (std::size_t c = 0; c < row.size(); ++c) {
    if (c > 0) line += repeat(" ", kGap);
    line += pad(paint(row[c].ink, row[c].text), widths[c], table.columns()[c].align);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

// Draws each row as a list: the first cell is its heading, the others follow the names of their
// columns.
std::string draw_lists(const Table& table) {
  int name_width = 0;
  for (const Column& column : table.columns()) {
    name_width = std::max(name_width, display_width(column.name));
  }
  std::string out;
  for (const auto& row : table.rows()) {
    out += paint(Ink::kStrong, row[0].text) + '\n';
    for (std::size_t c = 1; c < row.size(); ++c) {
      out += fmt::format("  {}  {}\n",
                         paint(Ink::kFaint, pad(table.columns()[c].name, name_width, Align::kLeft)),
                         paint(row[c].ink, row[c].text));
    }
  }
  return out;
}

}  // namespace

void Table::add_row(std::vector<Cell> row) {
  require(row.size() == columns_.size(), "a row of {} cells for a table of {} columns", row.size(),
          columns_.size());
  rows_.push_back(std::move(row));
}

std::string to_text(const Table& table, int width) {
  const std::vector<int> widths = widths_of(table);
  const int gaps = kGap * (static_cast<int>(widths.size()) - 1);
  const int whole = std::accumulate(widths.begin(), widths.end(), gaps);
  if (whole > width) return draw_lists(table);

  std::vector<Cell> names;
  for (const Column& column : table.columns()) names.emplace_back(column.name, Ink::kStrong);
  std::string out = draw_row(table, names, widths);
  out += paint(Ink::kFaint, repeat("─", whole)) + '\n';
  for (const auto& row : table.rows()) out += draw_row(table, row, widths);
  return out;
}

}  // namespace addnorm::report
