#include "report/doctor_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "report/doctor_bands.h"
#include "report/numbers.h"

namespace addnorm::report {

namespace {
constexpr std::array<SeverityLook, 3> kSeverities{
    {{"broken", "✗", Ink::kBad}, {"suspicious", "!", Ink::kNegative}, {"note", "·", Ink::kFaint}}};

}  // namespace

const SeverityLook& look(doctor::Severity severity) {
  return kSeverities[static_cast<std::size_t>(severity)];
}

std::string short_number(double value) {
  return std::isnan(value) ? "–" : fmt::format("{:.3g}", value);
}

Table layer_table(const std::vector<doctor::LayerNumbers>& rows, std::size_t most) {
  std::vector<Column> columns{{"layer"}};
  std::vector<LayerColumn> known;
  for (const LayerColumn& column : kLayerColumns) {
    const bool any = std::ranges::any_of(
        rows, [&](const doctor::LayerNumbers& row) { return !std::isnan(row.*column.member); });
    if (any) known.push_back(column);
  }
  for (const LayerColumn& column : known) columns.push_back({column.name});
  Table table(columns);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto place = [&](std::size_t row) { return row * (most - 1) / (rows.size() - 1); };
    if (rows.size() > most && i > 0 && place(i) == place(i - 1)) continue;
    std::vector<Cell> cells{std::to_string(rows[i].layer)};
    for (const LayerColumn& column : known)
      cells.emplace_back(short_number(rows[i].*column.member));
    table.add_row(std::move(cells));
  }
  return table;
}

const char* const kLayerCaption =
    "stream: RMS of a layer's input; attn, ff: RMS of attention and feed-forward as a share of it; "
    "cosine: between a layer's input and output; tokens: mean cosine of two tokens; logits: the "
    "largest attention logit; entropy: of attention, 1 = uniform; gradient: RMS of the gradient at "
    "a layer's input.";

std::string model_text(const doctor::Subject& subject) {
  const io::ProfileModel& model = subject.profile.model;
  std::vector<std::string> parts{model.model_type.empty() ? model.architecture : model.model_type};
  if (parts.front().empty() || parts.front() == subject.name) parts.clear();
  const bool is_word = model.placement == "pre" || model.placement == "post";
  if (is_word) parts.push_back(model.placement + "-norm");
  if (!is_word && !model.placement.empty()) parts.push_back("placement " + model.placement);
  if (model.norm) parts.emplace_back(title_of(*model.norm));
  if (model.eps > 0) parts.push_back(fmt::format("ε {:.0e}", model.eps));
  if (model.n_layers > 0) {
    parts.push_back(
        fmt::format("{} of width {}", format_count(model.n_layers, "layer"), model.d_model));
  }
  if (model.parameters > 0) parts.push_back(format_count(model.parameters) + " parameters");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string input_text(const doctor::Subject& subject) {
  const std::string loss =
      std::isnan(subject.loss) ? "" : fmt::format(": a loss of {:.3f} nats", subject.loss);
  return fmt::format("Measured on {}{}.", subject.measured_on, loss);
}

std::string stacks_text(const io::ProfileModel& model) {
  const std::vector<std::string>& modules = model.layer_modules;
  if (model.attention_modules.empty() || modules.empty()) return "";
  const auto stack_of = [&](std::size_t layer) {
    return modules[layer].substr(0, modules[layer].rfind('.'));
  };
  std::vector<std::string> parts;
  for (std::size_t first = 0, end; first < modules.size(); first = end) {
    for (end = first + 1; end < modules.size() && stack_of(end) == stack_of(first);) ++end;
    const std::string& last = modules[end - 1];
    parts.push_back(fmt::format(
        "{} are {}",
        end - first > 1 ? fmt::format("{} to {}", first, end - 1) : fmt::format("{}", first),
        modules[first] == last ? last : fmt::format("{} to {}", modules[first], last)));
  }
  return fmt::format("Layers {}.", fmt::join(parts, "; "));
}

std::string depth_text(const std::vector<doctor::LayerNumbers>& rows) {
  const double depth = effective_depth(rows);
  if (std::isnan(depth)) return "";
  return fmt::format(
      "Effective depth: {:.1f} of {} (from the angle by which each layer turns the stream).", depth,
      format_count(rows.size(), "layer"));
}

const doctor::Finding& Group::worst() const {
  return **std::ranges::max_element(findings, {}, &doctor::Finding::badness);
}

std::vector<Group> grouped(const std::vector<const doctor::Finding*>& findings) {
  std::vector<Group> groups;
  for (const doctor::Finding* finding : findings) {
    const auto same = std::ranges::find_if(groups, [&](const Group& group) {
      const doctor::Finding& first = *group.findings.front();
      return first.rule == finding->rule && first.severity == finding->severity &&
             first.fix == finding->fix;
    });
    if (same == groups.end()) {
      groups.push_back({{finding}});
    } else {
      same->findings.push_back(finding);
    }
  }
  return groups;
}

std::vector<Group> grouped(const std::vector<doctor::Finding>& findings) {
  std::vector<const doctor::Finding*> pointers;
  for (const doctor::Finding& finding : findings) pointers.push_back(&finding);
  return grouped(pointers);
}

std::string effects_text(const Group& group) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> effects;
  for (const doctor::Finding* finding : group.findings) {
    for (const std::string& effect : finding->leads_to) {
      if (std::ranges::find(effects, effect) == effects.end()) effects.push_back(effect);
    }
  }
  const std::size_t more = effects.size() > kMost ? effects.size() - kMost : 0;
  effects.resize(effects.size() - more);
  return fmt::format("{}{}", fmt::join(effects, "; "),
                     more > 0 ? fmt::format("; {} more", more) : "");
}

namespace {

/// Returns "3", "3 and 5", "0 to 11 and 13".
std::string numbers_text(const std::vector<std::size_t>& numbers) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    runs.push_back(end - i > 2 ? fmt::format("{} to {}", numbers[i], numbers[end - 1])
                               : fmt::format("{}", numbers[i]));
    i = end - i > 2 ? end : i + 1;
  }
  const std::string last = runs.back();
  runs.pop_back();
  return runs.empty() ? last : fmt::format("{} and {}", fmt::join(runs, ", "), last);
}

/// A place without its number: "layer 3, attention" and "layers.3.attn" have one, "head" has none.
struct PlaceKind {
  std::string before, after;
  bool is_layer = false;  ///< The text before the number is "layer ".
  bool operator==(const PlaceKind&) const = default;
};

/// Splits the place of a finding at its layer, or at the first number among the parts of its name.
std::pair<PlaceKind, std::optional<std::size_t>> split(const doctor::Finding& finding) {
  const std::string& where = finding.where;
  const std::size_t layer = finding.site ? finding.site->layer : 0;
  const std::string begin = fmt::format("layer {}", layer);
  if (finding.site && where.starts_with(begin)) {
    return {{"", where.substr(begin.size()), true}, layer};
  }
  constexpr std::size_t kMostDigits = 9;
  for (std::size_t dot = where.find('.'); dot != where.npos; dot = where.find('.', dot + 1)) {
    const std::size_t end = std::min(where.find_first_not_of("0123456789", dot + 1), where.size());
    const std::size_t digits = end - dot - 1;
    if (digits == 0 || digits > kMostDigits || (end < where.size() && where[end] != '.')) continue;
    return {{where.substr(0, dot + 1), where.substr(end)},
            std::stoul(where.substr(dot + 1, digits))};
  }
  return {{where, ""}, std::nullopt};
}

/// Returns "layers 0 to 3, attention", "layers.{0 to 3}.attn", "layers.3.attn", "head".
std::string place_text(const PlaceKind& kind, const std::vector<std::size_t>& numbers) {
  if (numbers.empty()) return kind.before;
  const bool is_one = numbers.size() == 1;
  const std::string text = numbers_text(numbers);
  if (kind.is_layer) return fmt::format("layer{} {}{}", is_one ? "" : "s", text, kind.after);
  return is_one ? kind.before + text + kind.after
                : fmt::format("{}{{{}}}{}", kind.before, text, kind.after);
}

}  // namespace

namespace {

/// Returns the layer's module in parentheses, " (encoder.layer.3)", or the first and the last of
/// several. Empty where the place has this name itself.
std::string modules_text(const Group& group) {
  const auto has_one = [](const doctor::Finding* finding) {
    return !finding->module.empty() && !finding->where.starts_with(finding->module);
  };
  const auto first = std::ranges::find_if(group.findings, has_one);
  if (first == group.findings.end()) return "";
  const std::string& last =
      (*std::find_if(group.findings.rbegin(), group.findings.rend(), has_one))->module;
  return (*first)->module == last ? fmt::format(" ({})", last)
                                  : fmt::format(" ({} … {})", (*first)->module, last);
}

}  // namespace

std::string places(const Group& group) {
  std::vector<std::pair<PlaceKind, std::vector<std::size_t>>> kinds;
  for (const doctor::Finding* finding : group.findings) {
    const auto [kind, number] = split(*finding);
    auto same = std::ranges::find(kinds, kind, &decltype(kinds)::value_type::first);
    if (same == kinds.end()) same = kinds.insert(kinds.end(), {kind, {}});
    if (number) same->second.push_back(*number);
  }
  std::vector<std::string> parts;
  parts.reserve(kinds.size());
  for (const auto& [kind, numbers] : kinds) parts.push_back(place_text(kind, numbers));
  return fmt::format("{}{}", fmt::join(parts, "; "), modules_text(group));
}

namespace {

std::string number_text(double value) {
  return std::isinf(value) ? "infinite" : fmt::format("{:#.3g}", value);
}

std::string proof_text(const doctor::Proof& proof) {
  const std::string steps =
      proof.steps > 0 ? fmt::format(" in {}", format_count(proof.steps, "step")) : "";
  const std::string verdict = !proof.was_found  ? "not seen again" + steps + ": try more"
                              : proof.is_mended ? "mended" + steps
                                                : "not mended" + steps;
  return fmt::format("{}: {} {} → {}, {}", proof.change, proof.number, number_text(proof.before),
                     number_text(proof.after), verdict);
}

}  // namespace

std::vector<std::string> proof_texts(const Diagnosis& diagnosis, const Group& group) {
  std::vector<std::string> texts;
  for (const doctor::Proof& proof : diagnosis.proofs) {
    if (proof.rule == group.worst().rule) texts.push_back(proof_text(proof));
  }
  return texts;
}

std::string coverage_text(const io::Coverage& coverage) {
  std::vector<std::string> parts;
  for (const auto& [what, measured, found] : coverage.counts) {
    parts.push_back(fmt::format("{} of {} {}", measured, found, what));
  }
  return parts.empty() ? "" : fmt::format("Measured: {}.", fmt::join(parts, ", "));
}

std::string left_out_text(const io::Coverage& coverage) {
  std::vector<std::string> parts;
  for (const auto& [where, why] : coverage.left_out) {
    parts.push_back(why.empty() ? where : fmt::format("{} ({})", where, why));
  }
  return parts.empty() ? "" : fmt::format("Not measured: {}.", fmt::join(parts, "; "));
}

bool is_blind(const io::Coverage& coverage) {
  return !coverage.counts.empty() && std::ranges::all_of(coverage.counts, [](const auto& count) {
    return count.measured == 0;
  });
}

Cell verdict(const Diagnosis& diagnosis) {
  std::size_t notes = 0;
  std::size_t defects = 0;
  std::set<std::string_view> rules;  // of the defects
  for (const doctor::Finding& finding : diagnosis.findings) {
    const bool is_note = finding.severity == doctor::Severity::kNote;
    ++(is_note ? notes : defects);
    if (!is_note) rules.insert(finding.rule);
  }
  std::string text = defects > 0 ? format_count(defects, "finding") : "no finding";
  if (rules.size() < defects) text += " of " + format_count(rules.size(), "rule");
  if (notes > 0) text += ", " + format_count(notes, "note");
  if (diagnosis.accepted > 0) text += fmt::format(", {} accepted", diagnosis.accepted);
  if (is_blind(diagnosis.subject.profile.coverage)) text += ": nothing was measured";
  const doctor::Subject& subject = diagnosis.subject;
  if (!subject.was_run()) {
    text += ": only the norms were checked";
  } else if (!subject.was_run_whole()) {
    text += fmt::format(": {} of {} layers were run", subject.layers_run,
                        subject.profile.model.n_layers);
  }
  return {text, diagnosis.sound() ? Ink::kGood : Ink::kBad};
}

}  // namespace addnorm::report
