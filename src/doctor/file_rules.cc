#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "doctor/places.h"
#include "doctor/rules.h"

namespace addnorm {
namespace {

/// Parts of names of tensors that models of these families carry along and nobody here needs: masks
/// and tables that can be made anew, copies of tied weights, heads for other tasks, decoders and
/// eyes.
constexpr std::array<std::string_view, 12> kCarriedAlong{"attn.bias",
                                                         "attn.masked_bias",
                                                         "rotary_emb",
                                                         "position_ids",
                                                         "pooler.",
                                                         "cls.seq_relationship",
                                                         "lm_head.weight",
                                                         "embed_tokens.weight",
                                                         "vision",
                                                         "multi_modal_projector",
                                                         "cls.predictions.decoder",
                                                         "decoder."};

bool is_carried_along(const std::string& name) {
  return std::ranges::any_of(
      kCarriedAlong, [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

struct KnownEpsilons {
  std::string_view family;
  std::array<double, 2> values;
};
constexpr KnownEpsilons kKnownEpsilons[] = {{"gpt2", {1e-5, 1e-5}},   {"bert", {1e-12, 1e-12}},
                                            {"llama", {1e-5, 1e-6}},  {"qwen2", {1e-6, 1e-5}},
                                            {"qwen3", {1e-6, 1e-6}},  {"gemma", {1e-6, 1e-6}},
                                            {"gemma2", {1e-6, 1e-6}}, {"gemma3_text", {1e-6, 1e-6}},
                                            {"olmo2", {1e-6, 1e-5}},  {"t5", {1e-6, 1e-6}}};

}  // namespace

void find_unread_tensors(const Subject& subject, Findings& findings) {
  std::vector<std::string> names;
  std::ranges::copy_if(subject.unused, std::back_inserter(names),
                       [](const std::string& name) { return !is_carried_along(name); });
  if (names.empty()) return;
  const std::size_t count = names.size();
  names.resize(std::min<std::size_t>(count, 3));
  findings.push_back(
      {.rule = "unread-tensors",
       .severity = Severity::kBroken,
       .where = "files",
       .what = fmt::format("{} tensors have no place in the recipe: {}{}", count,
                           fmt::join(names, ", "), count > names.size() ? ", …" : ""),
       .because = fmt::format("a model of the family {} reads every weight of its files",
                              subject.profile.model.model_type),
       .fix = "run the weights by the recipe that they were trained with: is model_type right?",
       .measured = static_cast<double>(count),
       .expected = 0});
}

void find_unusual_epsilon(const Subject& subject, Findings& findings) {
  const ProfileModel& model = subject.profile.model;
  const auto* known = std::ranges::find(kKnownEpsilons, model.model_type, &KnownEpsilons::family);
  if (known == std::end(kKnownEpsilons) || !(model.eps > 0)) return;
  const bool is_known = std::ranges::any_of(
      known->values, [&](double value) { return std::abs(model.eps / value - 1) < 0.01; });
  if (is_known) return;
  findings.push_back(
      {.rule = "epsilon-unusual",
       .severity = Severity::kSuspicious,
       .where = "all norms",
       .what = fmt::format("ε is {:.3g}", model.eps),
       .because = fmt::format(
           "published models of the family {} have {:.0e}{}", model.model_type, known->values[0],
           known->values[0] == known->values[1] ? "" : fmt::format(" or {:.0e}", known->values[1])),
       .fix = "take the ε that the weights were trained with",
       .measured = model.eps,
       .expected = known->values[0]});
}

/// What the stored γ themselves tell, where no output of a norm was fitted.
void find_gains_stored_otherwise(const Subject& subject, Findings& findings) {
  const std::string& form = subject.profile.model.gamma_form;
  if (form != "plain" && form != "one_plus") return;
  const std::size_t step = last_step(subject.profile);
  std::size_t norms = 0, around_zero = 0, around_one = 0;
  bool is_fitted = false;
  for (const ProfileEntry& entry : subject.profile.entries) {
    is_fitted |= !std::isnan(entry.divisor);
    if (entry.step != step || entry.site.point != Point::kGamma) continue;
    ++norms;
    around_zero += entry.min < 0 && std::abs(entry.mean) < entry.std;
    around_one += std::abs(entry.mean - 1) < 0.2 && entry.std < 0.3 && entry.min > 0;
  }
  if (is_fitted || norms == 0) return;
  const bool one_plus = form == "one_plus";
  const std::size_t count = one_plus ? around_one : around_zero;
  if (one_plus ? count < norms : 2 * count <= norms) return;
  findings.push_back(
      {.rule = "gamma-form",
       .severity = Severity::kSuspicious,
       .where = "all norms",
       .what = fmt::format("the γ of {} of {} norms lie around {}", count, norms, one_plus ? 1 : 0),
       .because = one_plus ? "γ that means 1 + γ starts at 0" : "γ that means γ starts at 1",
       .fix = one_plus ? "the weights hold γ itself: take 1 from each when they are read"
                       : "the weights hold γ − 1, as Gemma's: add 1 to each when they are read"});
}

}  // namespace addnorm
