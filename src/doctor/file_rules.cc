#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctor/alternatives.h"
#include "doctor/remedy.h"
#include "doctor/rules.h"
#include "io/tensor.h"
#include "model/family_facts.h"

namespace addnorm::doctor {
namespace {

/// Returns a text such as "2 tensors have no place: a, b", with at most three names.
std::string tensors_text(std::vector<std::string> names, std::string_view one,
                         std::string_view several, std::string_view what) {
  const std::size_t count = names.size();
  names.resize(std::min<std::size_t>(count, 3));
  return fmt::format(
      "{} {}: {}{}",
      count == 1 ? fmt::format("a tensor {}", one) : fmt::format("{} tensors {}", count, several),
      what, fmt::join(names, ", "), count > names.size() ? ", …" : "");
}

}  // namespace

void find_unread_tensors(const Subject& subject, Findings& findings) {
  std::vector<std::string> names;
  std::ranges::copy_if(subject.unused, std::back_inserter(names),
                       [](const std::string& name) { return !model::is_carried_along(name); });
  if (names.empty()) return;
  const std::size_t count = names.size();
  findings.push_back(
      {.rule = "unread-tensors",
       .where = "files",
       .what = tensors_text(std::move(names), "has", "have", "no place in the recipe"),
       .because = fmt::format("a model of the family {} reads every weight of its files",
                              subject.profile.model.model_type),
       .fix = "run the weights with the recipe that they were trained with: check model_type, or "
              "general.architecture of a GGUF file",
       .measured = static_cast<double>(count),
       .expected = 0});
}

namespace {

/// Returns the types in which weights can be read, without the integer types.
std::vector<std::string_view> readable_types() {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < io::dtypes().size(); ++i) {
    const auto dtype = static_cast<io::Dtype>(i);
    const bool is_integer = dtype >= io::Dtype::kI64 && dtype <= io::Dtype::kBool;
    if (io::is_readable(dtype) && !is_integer) names.push_back(io::info(dtype).name);
  }
  return names;
}

}  // namespace

void note_unreadable_tensors(const Subject& subject, Findings& findings) {
  if (subject.unreadable.empty()) return;
  std::vector<std::string> names;
  for (const Unreadable& one : subject.unreadable) {
    names.push_back(fmt::format("{} ({})", one.tensor, one.type));
  }
  findings.push_back(
      {.rule = "type-not-read",
       .severity = Severity::kNote,
       .where = "files",
       .what = tensors_text(std::move(names), "is", "are", "not read"),
       .because = fmt::format("supported types: {}", fmt::join(readable_types(), ", ")),
       .fix = "the model was not run, and only its norms were checked; check it as F16 or Q8_0",
       .measured = static_cast<double>(subject.unreadable.size()),
       .expected = 0});
}

void note_layers_not_run(const Subject& subject, Findings& findings) {
  if (subject.unknown_part.empty()) return;
  const std::size_t all = subject.profile.model.n_layers, run = subject.layers_run;
  std::string what = fmt::format("layers 0 to {} of {} were run", run - 1, all);
  if (run == 1) what = fmt::format("layer 0 of {} layers was run", all);
  if (run == 0) what = fmt::format("none of {} layers was run", all);
  findings.push_back(
      {.rule = "layers-not-run",
       .severity = Severity::kNote,
       .where = "model",
       .what = std::move(what),
       .because = fmt::format("{} {}, not supported here",
                              run == 0 ? "the model has" : "the others have", subject.unknown_part),
       .fix = run == 0 ? "only the γ of its norms were checked"
                       : "of the other layers, and of the final norm, only γ was checked",
       .measured = static_cast<double>(run),
       .expected = static_cast<double>(all)});
}

void find_unusual_epsilon(const Subject& subject, Findings& findings) {
  const io::ProfileModel& model = subject.profile.model;
  const auto [epsilon, other] = model::family_facts(model.model_type).epsilons;
  if (!(epsilon > 0) || !(model.eps > 0)) return;
  constexpr double kMost = 50;  // factor; others train the family with another ε
  const auto is_near = [&](double known) {
    return model.eps < kMost * known && known < kMost * model.eps;
  };
  if (is_near(epsilon) || is_near(other)) return;
  findings.push_back(
      {.rule = "epsilon-unusual",
       .severity = Severity::kSuspicious,
       .where = "all norms",
       .what = fmt::format("ε is {:.3g}", model.eps),
       .because = fmt::format("the family {} was published with {:.3g}{}", model.model_type,
                              epsilon, epsilon == other ? "" : fmt::format(" or {:.3g}", other)),
       .fix = "use the ε that the weights were trained with",
       .measured = model.eps,
       .expected = epsilon,
       .remedies = {{.change = fmt::format("ε {:.3g} → {:.3g}", model.eps, epsilon),
                     .recipe =
                         [known = epsilon](model::Recipe& recipe) { recipe.set_epsilon(known); }}},
       .measure = loss_measure()});
}

namespace {

Finding gains_around_zero(std::size_t count, std::size_t norms) {
  return {
      .rule = "gain-around-zero",
      .severity = Severity::kSuspicious,
      .where = "all norms",
      .what = fmt::format("the γ of {} of {} norms lie around 0", count, norms),
      .because = "a gain starts at 1; trained gains rarely change their sign",
      .fix = "initialize γ with ones; often, all parameters were initialized like weight matrices"};
}

}  // namespace

/// Judges the form of γ from its stored values. If the outputs of norms were fitted, a plain γ
/// around 0 is reported by its own rule.
void find_gains_stored_otherwise(const Subject& subject, Findings& findings) {
  if (subject.config) return;  // the form is known for runs of addnorm
  const std::optional<GammaForm> form = subject.profile.model.gamma_form;
  if (!form) return;
  std::size_t norms = 0, around_zero = 0, around_one = 0;
  bool is_fitted = false;
  for (const ProfileEntry& entry : last_entries(subject.profile)) {
    is_fitted |= entry.norm && entry.norm->divisor;
    if (entry.site.point != Point::kGamma) continue;
    ++norms;
    around_zero += entry.min < 0 && std::abs(entry.mean) < entry.std;
    around_one += std::abs(entry.mean - 1) < 0.2 && entry.std < 0.3 && entry.min > 0;
  }
  const bool one_plus = form == GammaForm::kOnePlus;
  if (norms == 0) return;
  if (is_fitted && !one_plus) {  // the fit has shown that γ alone multiplies
    if (3 * around_zero > norms) findings.push_back(gains_around_zero(around_zero, norms));
    return;
  }
  const std::size_t count = one_plus ? around_one : around_zero;
  if (one_plus ? count < norms : 2 * count <= norms) return;
  findings.push_back(
      {.rule = "gamma-form",
       .severity = Severity::kSuspicious,
       .where = "all norms",
       .what = fmt::format("the γ of {} of {} norms lie around {}", count, norms, one_plus ? 1 : 0),
       .because = one_plus ? "a γ that stands for 1 + γ starts at 0"
                           : "a γ that is used as it is starts at 1",
       .fix = one_plus ? "the weights store γ itself: subtract 1 from each when they are read"
                       : "the weights store γ − 1, as in Gemma: add 1 to each when they are read",
       .remedies = {{.change = one_plus ? "1 + γ → γ" : "γ → 1 + γ",
                     .recipe =
                         [=](model::Recipe& recipe) {
                           recipe.set_gamma_form(one_plus ? GammaForm::kPlain
                                                          : GammaForm::kOnePlus);
                         }}},
       .measure = loss_measure()});
}

void find_second_head(const Subject& subject, Findings& findings) {
  if (!subject.has_two_heads) return;
  findings.push_back(
      {.rule = "second-head",
       .severity = Severity::kSuspicious,
       .site = Site{.sublayer = SublayerKind::kHead, .point = Point::kOutput},
       .where = "head",
       .what = "the files hold a head that differs from the embedding, but the config ties both",
       .because = "a tied head has the embedding's values, or is left out of the files",
       .fix = "check tie_word_embeddings: a head that was trained separately must be used",
       .remedies =
           {{.change = "head tied → its own",
             .recipe = [](model::Recipe& recipe) { recipe.output = model::ModelOutput::kLogits; }}},
       .measure = loss_measure()});
}

namespace {

/// The weights of a layer, in their order.
std::vector<const ProfileEntry*> weights_of(const Subject& subject, std::size_t layer) {
  std::vector<const ProfileEntry*> weights;
  for (const ProfileEntry& entry : last_entries(subject.profile)) {
    if (entry.site.point == Point::kWeight && entry.site.layer == layer) weights.push_back(&entry);
  }
  return weights;
}

bool are_alike(const std::vector<const ProfileEntry*>& one,
               const std::vector<const ProfileEntry*>& other) {
  return !one.empty() &&
         std::ranges::equal(one, other, [](const ProfileEntry* a, const ProfileEntry* b) {
           return a->site.projection == b->site.projection && a->rms == b->rms && a->rms > 0 &&
                  a->mean == b->mean && a->abs_max == b->abs_max;
         });
}

}  // namespace

void find_repeated_layers(const Subject& subject, Findings& findings) {
  std::vector<const ProfileEntry*> before;
  const std::vector<std::string>& modules = subject.profile.model.layer_modules;
  for (std::size_t layer = 0; layer < subject.profile.model.n_layers; ++layer) {
    std::vector<const ProfileEntry*> weights = weights_of(subject, layer);
    const bool is_shared = layer > 0 &&
                           layer < modules.size() &&  // one module called again, as in ALBERT
                           modules[layer] == modules[layer - 1];
    if (!is_shared && are_alike(before, weights)) {
      findings.push_back(
          {.rule = "repeated-layer",
           // nn.TransformerEncoder starts with copies of one layer.
           .severity = is_initial(subject) ? Severity::kNote : Severity::kSuspicious,
           .site = weights.front()->site,
           .where = fmt::format("layer {}", layer),
           .what = fmt::format("all its weights equal those of layer {}", layer - 1),
           .because = "layers are initialized and trained independently of each other",
           .fix = "look for one layer that was put into the list twice, or for "
                  "tensors that were read under the same name"});
    }
    before = std::move(weights);
  }
}

/// Applies only to tokens that the user gave, because only on these were recipes tried.
void find_guessing(const Subject& subject, Findings& findings) {
  constexpr double kMost = 1.02;
  if (subject.alternatives.empty() || is_initial(subject)) return;
  if (!(subject.loss > kMost * subject.chance_loss)) return;
  findings.push_back(
      {.rule = "worse-than-guessing",
       .severity = Severity::kSuspicious,
       .where = "model",
       .what = fmt::format("the loss on these tokens is {:.3f} nats", subject.loss),
       .because =
           fmt::format("below {:.3f}, the loss of guessing, on text like that of its training",
                       subject.chance_loss),
       .fix = "check that the tokens are from its own tokenizer; if so, a matrix is transposed, "
              "rows of heads are in another order (RoPE's pairs), or tensors are swapped",
       .measured = subject.loss,
       .expected = subject.chance_loss});
}

void find_better_recipe(const Subject& subject, Findings& findings) {
  constexpr double kShare = 0.95;
  constexpr double kLeast = 0.05;  // nats; for a small loss a share says little
  const auto best = std::ranges::min_element(subject.alternatives, {}, &Alternative::loss);
  if (best == subject.alternatives.end()) return;
  if (!(best->loss < kShare * subject.loss) || !(best->loss < subject.loss - kLeast)) return;
  // A recipe whose loss is not below that of guessing is no evidence.
  if (!(best->loss < subject.chance_loss)) return;
  findings.push_back(
      {.rule = "another-recipe",
       .severity = Severity::kSuspicious,
       .where = "model",
       .what = fmt::format(
           "with {}, the loss on these tokens is {:.3f} nats; with the config as it is, {:.3f}",
           best->change, best->loss, subject.loss),
       .because = "weights do best with the recipe that they were trained with",
       .fix = fmt::format("try {}, and compare the generated text", best->change),
       .measured = subject.loss,
       .expected = best->loss,
       .remedies = {{.change = std::string(best->change),
                     .recipe = find_variant(best->change).apply}},
       .measure = loss_measure()});
}

}  // namespace addnorm::doctor
