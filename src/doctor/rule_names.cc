#include "doctor/rule_names.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/require.h"
#include "doctor/rules.h"

namespace addnorm::doctor {
namespace {

/// The least number of characters to insert, remove or replace (Levenshtein 1966).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);  // the distances of a prefix of a to those of b
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::span<const std::string_view> rule_names() {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> names = behaviour_rule_names();
    for (const RuleRow& rule : rule_table())
      names.insert(names.end(), rule.names.begin(), rule.names.end());
    std::erase(names, "");  // unused names of a row
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }();
  return kNames;
}

void check_accepted(std::span<const std::string> accepted) {
  for (const std::string& name : accepted) {
    const std::string_view rule = std::string_view(name).substr(0, name.find('@'));
    if (std::ranges::binary_search(rule_names(), rule)) continue;
    const std::string_view nearest = *std::ranges::min_element(
        rule_names(), {}, [&](std::string_view known) { return edit_distance(rule, known); });
    fail(fmt::format("\"{}\" is no rule of the doctor; the nearest is {}", rule, nearest));
  }
}

}  // namespace addnorm::doctor
