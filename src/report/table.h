#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/text.h"

namespace addnorm::report {

/// One cell of a table: plain text, without codes.
struct Cell {
  Cell(std::string text_, Ink ink_ = Ink::kPlain, std::string anchor_ = {})
      : text(std::move(text_)), ink(ink_), anchor(std::move(anchor_)) {}
  Cell(const char* text_) : Cell(std::string(text_)) {}

  std::string text;
  Ink ink;
  std::string anchor;  ///< the section of the page that the cell links to; empty: none
};

struct Column {
  std::string name;
  Align align = Align::kRight;
};

/// A table for the terminal (to_text) or a page (HtmlPage::table).
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Adds a row with one cell for each column.
  void add_row(std::vector<Cell> row);

  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<Cell>>& rows() const { return rows_; }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// Returns the table in lines of at most `width` columns. If its rows are too long, each cell gets
/// its own line; nothing is cut.
std::string to_text(const Table& table, int width);

}  // namespace addnorm::report
