#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>

#include "doctor/rules.h"
#include "model/family_facts.h"

/// Rules over the checks of a profile. A check changes an input and measures which outputs change.
/// Each row is a rule.

namespace addnorm::doctor {
namespace {

/// Texts may contain {value}, {limit}, {percent} (100 · value), {detail}, and {more}: ": " and the
/// detail, or nothing without a detail.
struct BehaviourRule {
  std::string_view name;
  bool (*fires)(const io::Check&, const Subject&);
  Severity declared;   ///< if the model declares the expected behaviour
  Severity otherwise;  ///< if it does not
  std::string_view what;
  std::string_view because;
  std::string_view fix;
  std::string_view check = name;  ///< the measurement that it judges
};

bool exceeds_limit(const io::Check& check, const Subject& /*subject*/) {
  return check.value > (std::isnan(check.limit) ? 0 : check.limit);
}

/// Whether the initial loss is more than 2 above ln V, the loss of V equally likely tokens. Logits
/// of variance σ² add about σ²/2: 0.2 for the weights of PyTorch's linear layers, 1 for Xavier's.
bool is_confident_guess(const io::Check& check, const Subject& subject) {
  constexpr double kMostAbove = 2;
  return is_initial(subject) && check.value > check.limit + kMostAbove;
}

/// Whether a step is larger than half of the weights. AdamW's first step at a learning rate of 3e-3
/// is 15 % of weights of 0.02, and such runs train.
bool overwrites(const io::Check& check, const Subject& /*subject*/) {
  return check.value > 0.5;
}

/// Whether rounding removes the step. A step of 0 is none: a warm-up may start at a rate of 0.
bool is_rounded_away(const io::Check& check, const Subject& /*subject*/) {
  return check.value > 0 && check.value < check.limit;
}

/// The limit is the smallest relative step that the number format can hold.
bool is_lost_by_rounding(const io::Check& check, const Subject& /*subject*/) {
  return check.value < check.limit;
}

bool is_lost(const io::Check& check) {
  return check.value > 0 && std::isnan(check.limit);
}

bool is_lost_everywhere(const io::Check& check, const Subject& /*subject*/) {
  return is_lost(check) && check.where == "model";
}

bool is_lost_in_parts(const io::Check& check, const Subject& /*subject*/) {
  return is_lost(check) && check.where != "model";
}

/// Whether the factor of the scores is 1 and not 1/√d: the probe reports only factors near one of
/// them. For heads of width 8 their ratio is 2.8, and larger for wider ones.
bool is_unscaled(const io::Check& check, const Subject& subject) {
  return check.value > 2 * check.limit &&
         model::family_facts(subject.profile.model.model_type).has_scaled_scores;
}

bool is_forgotten(const io::Check& check, const Subject& /*subject*/) {
  return check.value > 0 && (check.value <= 0.5 || !check.declared.empty());
}

/// For checks that are made only where something is wrong.
bool always(const io::Check& /*check*/, const Subject& /*subject*/) {
  return true;
}

bool is_left_out(const io::Check& check, const Subject& /*subject*/) {
  return check.value > 0.5 && check.declared.empty();
}

constexpr auto kBroken = Severity::kBroken;
constexpr auto kSuspicious = Severity::kSuspicious;
constexpr auto kNote = Severity::kNote;

constexpr BehaviourRule kBehaviourRules[] = {
    {"future-leak", exceeds_limit, kBroken, kSuspicious,
     "the output at one token depends on later ones, by {percent:.3g} % of its gradient{more}",
     "an output that depends only on its own token and earlier ones",
     "check the mask's diagonal and its sign: 0 or true where a query may see a key; take no "
     "statistics over tokens"},
    {"batch-leak", exceeds_limit, kBroken, kSuspicious,
     "the output of one sequence depends on the others of its batch, by {percent:.3g} % of its "
     "gradient",
     "sequences that do not affect each other in evaluation",
     "look for view() in place of transpose(), batch_first=False with inputs [batch, length, "
     "width], and statistics over the batch"},
    {"batch-leak", exceeds_limit, kSuspicious, kSuspicious,
     "alone, a sequence of the batch gives an output that differs by {percent:.3g} %",
     "sequences that do not affect each other in evaluation",
     "check the axes of the mask: each sequence needs its own mask, the same in all heads",
     "alone"},
    {"padding-leak", exceeds_limit, kSuspicious, kSuspicious,
     "other values at padded tokens change the rest of the output by {percent:.3g} %{more}",
     "an output that does not depend on padding",
     "give the mask to every layer, with the right sign: true or 1 may mean keep or hide; "
     "convolutions and Fourier transforms over tokens ignore it"},
    {"cache-mismatch", exceeds_limit, kBroken, kBroken,
     "with a cache of the first tokens, the output at the last ones differs by {percent:.3g} % "
     "from that without a cache",
     "the same output with and without a cache",
     "count positions from the cache's length; append keys and values along the token axis; use "
     "the last rows of the mask"},
    {"eval-noise", exceeds_limit, kSuspicious, kNote,
     "two evaluations of one batch differ by {percent:.3g} %{more}", "the same output twice",
     "use F.dropout(x, p, training=self.training); keep modules with dropout as attributes, not in "
     "plain lists"},
    {"gradient-missing", exceeds_limit, kBroken, kSuspicious,
     "{value:.0f} values change the loss and get no gradient",
     "a gradient for every trained parameter that changes the loss",
     "look for detach(), .data, no_grad() or argmax on the way; call requires_grad_(False) if this "
     "is intended"},
    {"gradient-zero", exceeds_limit, kBroken, kSuspicious,
     "the gradient of {value:.0f} values is {detail}",
     "a nonzero gradient for every trained parameter",
     "look for a factor of 0 on the way: two matrices that are both 0 (LoRA starts only one of "
     "them at 0); a saturated gate; a weight that is always 1, such as that of a router's only "
     "expert"},
    {"gamma-ignored", exceeds_limit, kBroken, kBroken,
     "its norm is called, but the output does not depend on these {value:.0f} values", "γ ⊙ x̂ + β",
     "multiply by the weight and add the bias, or remove both"},
    {"statistics-detached", exceeds_limit, kBroken, kBroken,
     "the part of its input's gradient along the input is {percent:.3g} % of the part along a "
     "random "
     "direction",
     "0: scaling the input does not change the norm's output (Ba et al. 2016, section 5)",
     "compute mean and variance without detach() and no_grad()"},
    {"tying-broken", exceeds_limit, kBroken, kSuspicious,
     "embedding and head are {value:.0f} separate parameters: {detail}",
     "one parameter that both share",
     "set head.weight = embedding.weight after weights are loaded, moved or copied; do not set "
     ".data"},
    {"dropout-on-stream", exceeds_limit, kSuspicious, kSuspicious,
     "dropout of {percent:.3g} % is applied to x + f", "dropout on the branch: x + dropout(f)",
     "write x + dropout(f): dropout of the sum also drops what earlier layers added"},
    {"attention-scale", is_unscaled, kSuspicious, kSuspicious,
     "the softmax reads {value:.3g}·q·k; {detail}",
     "1/√d = {limit:.3g} (Vaswani et al. 2017, section 3.2.1)", "divide q·k by √d, once"},
    {"attention-scale-odd", always, kSuspicious, kSuspicious, "the softmax reads {value:.3g}·q·k",
     "{limit:.3g}·q·k, as in {detail}", "use one factor in all layers"},
    {"softmax-axis", exceeds_limit, kBroken, kSuspicious,
     "the softmax runs over {detail}, and the product with the values sums over keys",
     "weights that add up to 1 for each query",
     "use softmax(dim=-1) of scores [..., queries, keys]"},
    {"attention-constant", exceeds_limit, kSuspicious, kSuspicious,
     "its {detail} are the same for all tokens", "{detail} that depend on the token",
     "check what the projection reads; look for a broadcast, or for an index that selects a single "
     "token"},
    {"heads-alike", exceeds_limit, kSuspicious, kSuspicious,
     "{detail} give the same keys the same weights as another head", "heads that differ",
     "check the reshape into heads, and whether one projection was copied into all heads"},
    {"head-silent", exceeds_limit, kSuspicious, kSuspicious, "the values of {detail} are 0",
     "heads that all contribute",
     "find out what sets rows of the value projection, or the output of heads, to 0"},
    {"dropout-before-softmax", exceeds_limit, kSuspicious, kSuspicious,
     "dropout sets scores to 0 before the softmax", "dropout of the weights, after the softmax",
     "move it after the softmax: a score of 0 does not remove a key"},
    {"cast-to-half", exceeds_limit, kSuspicious, kSuspicious,
     "values are cast to {detail} in a model of float32", "float32, as the parameters are",
     "remove the cast, or use torch.autocast for the whole model"},
    {"unlike-config", always, kSuspicious, kSuspicious, "computes with {value:.4g} {detail}",
     "{limit:.4g} in the configuration", "use the number of the configuration, or correct it"},
    {"positions-wrong", exceeds_limit, kSuspicious, kSuspicious, "{value:.0f} {detail}",
     "positions that count up from the table's first entry",
     "check the code that makes the position ids"},
    {"logits-changed", exceeds_limit, kSuspicious, kSuspicious,
     "the output differs from what the head returns, by {percent:.3g} %", "logits of W·h + b",
     "look for code that changes the logits after the head, or declare it in the configuration"},
    {"activation-changed", exceeds_limit, kSuspicious, kSuspicious, "its activation is {detail}",
     "the activation that the configuration names", "use that one, or correct the configuration"},
    {"initial-size", always, kSuspicious, kSuspicious,
     "its values are {value:.3g} {detail} before training",
     "{limit:.3g}, as given by the configuration or the kind of norm",
     "check the code that initializes it last"},
    {"bias-off-zero", always, kSuspicious, kSuspicious,
     "its values lie around {value:.3g}, with a standard deviation of {limit:.2g}",
     "values around 0: β starts at 0, and training has no reason to move all features one way",
     "check what is added to β when weights are made or loaded"},
    {"size-odd", always, kSuspicious, kSuspicious,
     "its values have a root mean square of {value:.3g}", "about {limit:.3g}, as in {detail}",
     "check what scales or initializes the weights of this layer alone"},
    {"weight-zeros", exceeds_limit, kSuspicious, kSuspicious, "{detail} are exactly 0",
     "initialized or trained weights, except for padding",
     "find out what masks or overwrites them"},
    {"norm-shared", exceeds_limit, kSuspicious, kNote,
     "one norm, with one γ, is called {value:.3g} times by the module around it",
     "a separate norm at each place", "check the names of the norms in forward()"},
    {"norm-unused", exceeds_limit, kSuspicious, kSuspicious, "it is never called, but {detail}",
     "every norm is called in forward()", "call it where it belongs, or remove it"},
    {"parameter-unused", exceeds_limit, kSuspicious, kNote, "{value:.0f} values: {detail}",
     "every trained parameter affects the loss",
     "call it, or remove it; DistributedDataParallel waits for its gradient"},
    {"parameter-unregistered", exceeds_limit, kBroken, kBroken,
     "{value:.0f} values of modules in a plain list are used, but are not among the model's "
     "parameters",
     "every weight in model.parameters()",
     "use nn.ModuleList or nn.ModuleDict: optimizers, to() and state_dict() miss modules in plain "
     "lists"},
    {"layer-shared", exceeds_limit, kNote, kNote,
     "the list holds one module {value:.0f} times, with one set of weights",
     "layers with separate weights, unless they share them on purpose, as in ALBERT",
     "use [Layer() for _ in range(n)] or copy.deepcopy, unless this is intended"},
    {"parameter-frozen", exceeds_limit, kSuspicious, kNote,
     "{percent:.3g} % of its values are frozen{more}", "parameters that are trained",
     "call requires_grad_(True), unless this is intended"},
    {"not-in-optimizer", is_forgotten, kSuspicious, kSuspicious,
     "{percent:.3g} % of the trained parameters are in no parameter group",
     "every trained parameter in the optimizer",
     "create the optimizer after the model is complete; pass all optimizers if there are several"},
    {"not-in-optimizer", is_left_out, kNote, kNote,
     "{percent:.3g} % of the trained parameters are in no parameter group",
     "every trained parameter in the optimizer",
     "if this is intended, requires_grad_(False) saves the work of their gradients"},
    {"initial-loss", is_confident_guess, kSuspicious, kSuspicious,
     "the loss before training is {value:.4g}", "about ln V = {limit:.4g}, of {detail}",
     "use smaller weights in the head, or a factor 1/√d before it if it is tied to an embedding of "
     "N(0, 1)"},
    {"update-ratio", overwrites, kSuspicious, kSuspicious,
     "one step changes a weight by {percent:.3g} % of its size, in the median over matrices",
     "at most half", "use a lower learning rate or larger weights"},
    {"update-ratio", is_rounded_away, kSuspicious, kSuspicious,
     "one step changes a weight by {value:.2g} of its size, which {detail} rounds away",
     "at least {limit:.2g}, half of the distance between neighbouring numbers",
     "keep the weights in float32 and round copies, or round stochastically"},
    {"update-missing", is_lost_everywhere, kBroken, kBroken,
     "no value that has a gradient changed: {detail}",
     "optimizer steps that change every parameter with a gradient",
     "call optimizer.step() of an optimizer that was created from this model's parameters"},
    {"update-missing", is_lost_in_parts, kSuspicious, kSuspicious,
     "no value that has a gradient changed: {detail}",
     "optimizer steps that change every parameter with a gradient",
     "create the optimizer after the model is complete; call requires_grad_(False) if it is not "
     "meant to change"},
    {"update-missing", is_lost_by_rounding, kSuspicious, kSuspicious,
     "no value that has a gradient changed: {detail}",
     "steps above {limit:.2g} of the value, half of the distance between neighbouring numbers",
     "keep the weights in float32 and round copies, or round stochastically"},
    {"gradient-not-cleared", exceeds_limit, kSuspicious, kSuspicious,
     "an optimizer step reused the gradient of the step before{more}",
     "only gradients of the batches since the last step",
     "call zero_grad() of every optimizer between two steps"},
    {"ranks-differ", exceeds_limit, kBroken, kBroken,
     "{value:.0f} parameters differ between processes, this one first{more}",
     "the same parameters in all processes",
     "average the gradients of all parameters over the processes, as DistributedDataParallel does; "
     "start with the same weights"},
    {"decay-uneven", always, kSuspicious, kSuspicious,
     "the weight decay of {detail} is {value:.3g}", "{limit:.3g}, as for most of them",
     "put all matrices into one group, unless this is intended"},
    {"decay-on-gain", exceeds_limit, kSuspicious, kNote,
     "weight decay of {value:.3g} also applies to {detail}",
     "many recipes decay only matrices: decay pulls γ towards 0, where a norm outputs nothing",
     "put one-dimensional parameters into a group with weight_decay=0, unless this is intended"},
};

Finding finding_of(const io::Check& check, const BehaviourRule& rule) {
  const auto filled = [&](std::string_view text) {
    return fmt::format(fmt::runtime(text), fmt::arg("value", check.value),
                       fmt::arg("limit", check.limit), fmt::arg("percent", 100 * check.value),
                       fmt::arg("detail", check.detail),
                       fmt::arg("more", check.detail.empty() ? "" : ": " + check.detail));
  };
  const bool is_declared = !check.declared.empty();
  return {.rule = rule.name,
          .severity = is_declared ? rule.declared : rule.otherwise,
          .where = check.where.empty() ? "model" : check.where,
          .what = filled(rule.what),
          .because = filled(rule.because) + (is_declared ? "; " + check.declared : ""),
          .fix = std::string(rule.fix),
          .measured = check.value,
          .expected = check.limit};
}

}  // namespace

std::vector<std::string_view> behaviour_rule_names() {
  std::vector<std::string_view> names(std::size(kBehaviourRules));
  std::ranges::transform(kBehaviourRules, names.begin(), &BehaviourRule::name);
  return names;
}

void find_misbehaviour(const Subject& subject, Findings& findings) {
  for (const BehaviourRule& rule : kBehaviourRules) {
    for (const io::Check& check : subject.profile.checks) {
      if (check.name != rule.check || !rule.fires(check, subject)) continue;
      findings.push_back(finding_of(check, rule));
    }
  }
}

}  // namespace addnorm::doctor
