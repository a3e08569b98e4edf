#include "cli/site_trace_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/trace_steps.h"
#include "report/text.h"

namespace addnorm::cli {
namespace {

using lab::Rows;
using report::Align;
using report::pad;

constexpr std::size_t kMostRows = 16;
constexpr std::string_view kNoBreak = "\u00a0";

/// Columns of numbers under a title; blocks form a grid.
struct Block {
  std::string title;
  const Rows& rows;
};

/// Returns the column's numbers, one for each row, with "…" for omitted ones.
std::vector<std::string> texts_of(const Rows& rows, std::size_t c) {
  std::vector<std::string> texts;
  // + 0.0 turns −0 into 0
  for (const std::vector<double>& row : rows) texts.push_back(number(row[c] + 0.0));
  std::size_t width = 0;
  for (const std::string& text : texts) width = std::max(width, text.size());
  for (std::string& text : texts) text = pad(text, static_cast<int>(width), Align::kRight);
  return texts;
}

/// Returns the rows of a block. They have all columns, or as many as fit in `room`, with "…" before
/// the last column.
std::vector<std::string> lines_of(const Rows& rows, int room) {
  const std::size_t cols = rows.front().size();
  std::vector<std::vector<std::string>> columns;
  std::vector<int> widths;
  int all = 0;
  for (std::size_t c = 0; c < cols; ++c) {
    columns.push_back(texts_of(rows, c));
    widths.push_back(report::display_width(columns[c].front()) + 2);
    all += widths[c];
  }
  std::size_t first = cols;  // number of columns before the gap
  if (all > room) {
    int used = widths.back() + 3;
    for (first = 0; first + 1 < cols && used + widths[first] <= room; ++first)
      used += widths[first];
  }
  std::vector<std::string> lines(rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < first; ++c) lines[r] += "  " + columns[c][r];
    if (first < cols) lines[r] += "  …  " + columns[cols - 1][r];
  }
  return lines;
}

/// Returns the width of the widest line.
int width_of(const std::vector<std::string>& lines) {
  int widest = 0;
  for (const std::string& line : lines) widest = std::max(widest, report::display_width(line));
  return widest;
}

/// Returns blocks side by side, a row for each lane.
std::string grid(const std::vector<Block>& blocks, int width) {
  const std::size_t rows = blocks.front().rows.size(), shown = std::min(rows, kMostRows);
  const int label = report::display_width(fmt::format("lane {}", shown - 1));
  const int room = width - label - 3 * static_cast<int>(blocks.size() - 1);
  const auto lay_out = [&](int room_of_each) {
    std::vector<std::vector<std::string>> all;
    for (const Block& block : blocks) {
      all.push_back(lines_of(block.rows, room_of_each));
      all.back().insert(all.back().begin(), "  " + block.title);
    }
    return all;
  };
  std::vector<std::vector<std::string>> laid_out = lay_out(room);
  int used = 0;
  for (const auto& lines : laid_out) used += width_of(lines);
  if (used > room) laid_out = lay_out(room / static_cast<int>(blocks.size()));

  std::string text;
  for (std::size_t line = 0; line <= shown; ++line) {
    std::string row = pad(line > 0 ? fmt::format("lane {}", line - 1) : "", label, Align::kLeft);
    for (const auto& lines : laid_out) {
      row += lines[line];
      if (&lines == &laid_out.back()) continue;
      row += report::repeat(" ", width_of(lines) - report::display_width(lines[line]));
      row += line > 0 ? "  │" : "   ";
    }
    text += (line > 0 ? row : report::paint(report::Ink::kFaint, row)) + "\n";
  }
  if (shown < rows) {
    text += report::paint(report::Ink::kFaint, fmt::format("… and {} more\n", rows - shown));
  }
  return text;
}

/// Returns "0.7311·lane 0 + 0.2689·lane 1", without zero terms. A line breaks after its +, not in a
/// name.
std::string combination(const std::vector<double>& factors) {
  std::string text;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (factors[i] == 0) continue;
    if (!text.empty()) text += factors[i] < 0 ? " − " : " + ";
    const double size = text.empty() ? factors[i] : std::abs(factors[i]);
    text += fmt::format("{}lane{}{}", size == 1 ? "" : number(size) + "·", kNoBreak, i);
  }
  return text.empty() ? "0" : text;
}

/// Returns "s·f", and "" for 0.
std::string term(double factor, std::string_view of) {
  if (factor == 0) return "";
  return factor == 1 ? std::string(of) : fmt::format("{} × {}", number(factor), of);
}

class SiteSteps {
 public:
  SiteSteps(const lab::SiteTrace& trace, int width)
      : t_(trace), p_(trace.placement), form_(trace.placement.lanes), width_(width) {
    add_stream();
    if (form_.several()) {
      if (form_.reads_carried) add_carried();
      add_read();
    }
    add_norm(t_.before, {z(), "h", ", the input of F"});
    if (t_.branch.empty()) return;
    add_branch();
    if (form_.several()) {
      if (!form_.reads_carried) add_carried();
      add_written();
    } else {
      add_sum();
    }
    add_after();
  }

  std::vector<Step> take() { return std::move(steps_); }

 private:
  void add_stream();
  void add_read();
  void add_norm(const std::optional<lab::NormTrace>& norm, const NormWords& words);
  void add_branch();
  void add_update();
  void add_carried();
  void add_written();
  void add_sum();
  void add_after();
  void add_text(std::string title, std::string formula, std::string text) {
    steps_.push_back({std::move(title), std::move(formula), std::move(text)});
  }
  std::string how(char letter, const MixForm& mix, std::size_t to, std::size_t from) const;
  std::string wrapped(const std::string& text) const;
  std::string z() const { return form_.several() ? "z" : "x"; }
  std::string F() const { return fmt::format("F({})", p_.before == Slot::kNothing ? z() : "h"); }

  const lab::SiteTrace& t_;
  const Placement& p_;
  const LaneForm& form_;
  const int width_;
  std::vector<Step> steps_;
};

std::string SiteSteps::wrapped(const std::string& text) const {
  std::string lines = report::wrap(text, width_) + "\n";
  for (std::size_t at = 0; (at = lines.find(kNoBreak, at)) != lines.npos;) {
    lines.replace(at, kNoBreak.size(), " ");
  }
  return lines;
}

/// Explains the numbers of a mix: the table's formula, and what training changes.
std::string SiteSteps::how(char letter, const MixForm& mix, std::size_t to,
                           std::size_t from) const {
  using Source = MixForm::Source;
  constexpr std::string_view kSources[] = {"", "all lanes of the token",
                                           "the input of the sublayer before",
                                           "the lane that they belong to", "the last lane"};
  bool learned = false;
  for (std::size_t i = 0; i < to * from; ++i) {
    learned = learned || mix.learned(t_.place, i / from, i % from);
  }
  std::string text = fmt::format("{}: {}.", letter, mix.formula);
  if (mix.source == Source::kPrevious && t_.place.site() == 0) {
    text += " There is no sublayer before the first one, which takes the first lane alone.";
  } else if (mix.source != Source::kNone && mix.made(t_.place)) {
    text += fmt::format(
        " Computed from {} with weights that start at 0, so at first they are the same for all "
        "tokens.",
        kSources[static_cast<std::size_t>(mix.source)]);
  } else {
    const bool elsewhere = mix.formula.find("learned") != mix.formula.npos;
    text += learned     ? " Training starts with these numbers."
            : elsewhere ? " In this sublayer they are constant."
                        : " Constant.";
  }
  return text;
}

void SiteSteps::add_stream() {
  const std::vector<double>& first = t_.lanes.front();
  if (!form_.several()) {
    add_norm(t_.entry, {"e", "x", ", of the embedding e"});
    steps_.push_back({"Input", "x", "", first, names("x", first), kCyan, kStream});
    return;
  }
  std::string what = form_.grows ? "X, all lanes kept so far" : "X, the lanes as given";
  if (t_.begins && form_.splits_features) {
    what = fmt::format("X, the features of x in {} parts", t_.lanes.size());
  } else if (t_.begins) {
    what =
        form_.grows ? "X, the embedding alone" : "X, copies of the embedding, as a stream begins";
    if (p_.entry != Slot::kNothing) what += "; the first is normalized";
  }
  add_text("Lanes", what, grid({{"X", t_.lanes}}, width_));
}

void SiteSteps::add_read() {
  const bool normed = form_.last_lane != Slot::kNothing;
  const std::string of = form_.reads_carried ? "A·X" : normed ? "R(X)" : "X";
  std::string text = wrapped(how('a', form_.read, t_.read.size(), t_.read_from.size()));
  if (normed) text += "R normalizes the last lane:\n" + grid({{"R(X)", t_.read_from}}, width_);
  for (std::size_t i = 0; i < t_.read.size(); ++i) {
    constexpr std::string_view kReads[] = {" of values", " of keys", " of queries"};
    const std::string part = form_.splits_features ? fmt::format("part {} of z", i)
                             : t_.read.size() > 1  ? fmt::format("z{}", kReads[i])
                                                   : "z";
    text += wrapped(fmt::format("{} = {}", part, combination(t_.read[i])));
  }
  if (form_.reads(t_.place) > 1) text += "The z below is that of the values.\n";
  steps_.push_back({"Read", "z = a·" + of, text, t_.z, names("z", t_.z), kCyan, kStream});
}

void SiteSteps::add_norm(const std::optional<lab::NormTrace>& norm, const NormWords& words) {
  if (!norm) return;
  for (Step& step : norm_steps(*norm, words, width_)) steps_.push_back(std::move(step));
}

void SiteSteps::add_branch() {
  const std::string who = p_.sublayers == Sublayers::kParallel
                              ? "attention and feed-forward together"
                          : t_.place.sublayer == SublayerKind::kAttention ? "attention"
                                                                          : "feed-forward";
  steps_.push_back({"Branch", fmt::format("{}, the output of {}", F(), who), "", t_.branch,
                    names("F", t_.branch), kOrange, kStream});
  add_norm(t_.inside, {F(), "f"});
  add_update();
}

/// Adds u if it differs from f.
void SiteSteps::add_update() {
  if (p_.update == Update::kBranch) return;
  const std::string f = t_.inside ? "f" : F(), x = z();
  std::string formula, text;
  std::vector<std::string> labels = column(t_.f);
  const std::vector<std::string> read = column(t_.z);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] += fmt::format(" − {}", read[i]);
  if (p_.update == Update::kDifference) {
    formula = fmt::format("u = {} − {}", f, x);
    for (std::string& label : labels) label += " =";
  } else if (p_.update == Update::kGated) {
    formula = fmt::format("u = σ(W·{1} + b) ⊙ ({0} − {1})", f, x);
    text =
        "W starts random (here it is 0); b starts at −1, so the gate is σ(−1) = "
        "0.2689.\n";
    for (std::string& label : labels) label = fmt::format("0.2689 × ({}) =", label);
  } else {
    formula = fmt::format(
        "u = {0} − ⟨{0}, {1}⟩/(⟨{1}, {1}⟩ + 1e-6)·{1}, without its part along {1}", f, x);
    labels = names("u", t_.u);
  }
  steps_.push_back({"Update", formula, text, t_.u, labels, kOrange, kStream});
}

void SiteSteps::add_carried() {
  const std::size_t n = t_.lanes.size();
  const Changes changes = form_.changes(t_.place);
  if (changes == Changes::kLast) {
    add_text("Carry", "A = I", "This sublayer appends no lane: all stay as they are.\n");
  } else if (changes == Changes::kAppend) {
    const std::string begins = combination(t_.carry.back());
    add_text("Carry", "the lanes stay, and one is appended",
             begins == "0" ? fmt::format("Lane {} takes nothing from the others.\n", n)
                           : wrapped(how('A', form_.carry, 1, n)) +
                                 wrapped(fmt::format("lane {} begins with {}", n, begins)));
  } else {
    const Rows carried = t_.carried.empty() ? t_.read_from : t_.carried;
    add_text(
        "Carry", "A·X",
        wrapped(how('A', form_.carry, n, n)) + grid({{"A", t_.carry}, {"A·X", carried}}, width_));
  }
}

void SiteSteps::add_written() {
  const std::string u = p_.update != Update::kBranch ? "u" : t_.inside ? "f" : F();
  const Changes changes = form_.changes(t_.place);
  const std::string sum = "A·X + b ⊗ " + u;
  const std::string title = p_.after == Slot::kNothing ? "X′" : "S";
  if (changes != Changes::kAll) {
    const bool is_new = changes == Changes::kAppend;
    add_text("Write", fmt::format("{} is added to the {} lane", u, is_new ? "new" : "last"),
             grid({{title, t_.sum}}, width_));
    return;
  }
  add_text("Write", "b ⊗ " + u,
           wrapped(how('b', form_.write, t_.write.size(), t_.write.front().size())) +
               grid({{"b", t_.write}, {"b ⊗ " + u, t_.written}}, width_));
  add_text("Add", fmt::format("{} = {}", title, sum), grid({{title, t_.sum}}, width_));
}

/// s = skip ⊙ x + gain ⊙ u
void SiteSteps::add_sum() {
  const double skip = t_.carry.front().front(), gain = t_.write.front().front();
  const std::string u = p_.update != Update::kBranch ? "u" : t_.inside ? "f" : F();
  const auto formula = [&](std::string_view x, std::string_view added) {
    const std::string first = term(skip, x), second = term(gain, added);
    return first.empty() || second.empty() ? first + second : first + " + " + second;
  };
  const std::string all = formula("x", u);
  std::string text;
  const auto is_learned = [](const ResidualFactor& factor) {
    return factor.form != ResidualFactor::Form::kConstant;
  };
  if (is_learned(p_.skip)) text += "The factor of x is learned and starts there.\n";
  if (p_.gain.form == ResidualFactor::Form::kLearnedMagnitudes) {
    text += fmt::format("The factor of {} is |v| of a learned v, which starts there.\n", u);
  } else if (is_learned(p_.gain)) {
    text += fmt::format("The factor of {} is learned and starts there.\n", u);
  }
  if (p_.survival.formula != "1") {
    const double survival = p_.survival.value(t_.place.depth);
    text += wrapped(
        fmt::format("In training {} is 0 for a whole sequence with probability {}, and else "
                    "divided by {}.",
                    u, number(1 - survival), number(survival)));
  }
  std::vector<std::string> labels = column(t_.lanes.front());
  const std::vector<std::string> added = column(t_.u);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = formula(labels[i], added[i]) + " =";
  steps_.push_back(
      {"Add", "s = " + (all.empty() ? "0" : all), text, t_.sum.front(), labels, kYellow, kStream});
}

void SiteSteps::add_after() {
  if (!t_.after) return;
  const bool several = form_.several();
  add_norm(t_.after, {several ? "lane 0" : "s", several ? "lane 0 of X′" : "y"});
  if (several) {
    add_text("Result", "X′, whose first lane is normalized", grid({{"X′", t_.output}}, width_));
  }
}

}  // namespace

std::string site_trace_text(const lab::SiteTrace& t, int width) {
  const Depth& depth = t.place.depth;
  const std::string_view sublayer = t.placement.sublayers == Sublayers::kParallel
                                        ? "attention and feed-forward"
                                    : t.place.sublayer == SublayerKind::kAttention ? "attention"
                                                                                   : "feed-forward";
  const std::string where = fmt::format("  {} in layer {} of {}; {}", sublayer, depth.layer,
                                        depth.layers, t.placement.used_by);
  std::string text = report::paint(report::Ink::kStrong, t.placement.name) +
                     report::paint(report::Ink::kFaint, where) + "\n\n" +
                     draw(SiteSteps(t, width).take(), width);
  if (t.branch.empty()) {
    text += report::paint(report::Ink::kFaint, "\n--branch sets the output of F.\n");
  }
  return text;
}

}  // namespace addnorm::cli
