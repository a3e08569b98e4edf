#include "doctor/rule_names.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/require.h"

namespace addnorm::doctor {
namespace {

constexpr std::string_view kRuleNames[] = {
    "activation-changed",
    "another-recipe",
    "attention-constant",
    "attention-logits-grow",
    "attention-saturated",
    "attention-scale",
    "attention-scale-odd",
    "batch-leak",
    "bias-off-zero",
    "branch-detached",
    "branch-factor",
    "branch-missing",
    "cache-mismatch",
    "carry-not-stochastic",
    "carry-transposed",
    "cast-to-half",
    "coefficients-rounded",
    "dead-norm",
    "decay-on-gain",
    "decay-uneven",
    "depth-scale",
    "dropout-before-softmax",
    "dropout-on-stream",
    "epsilon-large",
    "epsilon-odd",
    "epsilon-place",
    "epsilon-size",
    "epsilon-unusual",
    "eval-noise",
    "final-norm",
    "future-leak",
    "gain-around-zero",
    "gamma-form",
    "gamma-ignored",
    "gradient-explodes",
    "gradient-factor",
    "gradient-missing",
    "gradient-not-cleared",
    "gradient-vanishes",
    "gradient-zero",
    "head-silent",
    "heads-alike",
    "idle-sublayer",
    "initial-loss",
    "initial-size",
    "lanes-alike",
    "lanes-not-kept",
    "layer-shared",
    "layers-not-run",
    "logits-changed",
    "loss-rises",
    "loss-spikes",
    "massive-activations",
    "modulation-around-zero",
    "norm-axis",
    "norm-kind",
    "norm-misplaced",
    "norm-over-stream",
    "norm-overflow",
    "norm-power",
    "norm-scale-odd",
    "norm-shared",
    "norm-unused",
    "not-finite",
    "not-in-optimizer",
    "not-understood",
    "padding-leak",
    "parameter-frozen",
    "parameter-unregistered",
    "parameter-unused",
    "positions-wrong",
    "ranks-differ",
    "repeated-layer",
    "residual-detached",
    "residual-factor",
    "residual-missing",
    "residual-twice",
    "rounded-statistics",
    "second-head",
    "size-odd",
    "softmax-axis",
    "statistics-detached",
    "stream-changed",
    "stream-gated",
    "stream-growth",
    "sublayer-input",
    "sum-odd",
    "sum-unexplained",
    "tokens-collapse",
    "training-stalls",
    "training-stopped",
    "tying-broken",
    "type-not-read",
    "unlike-config",
    "unread-tensors",
    "unscaled-projection",
    "update-missing",
    "update-ratio",
    "variance-divisor",
    "warm-up-missing",
    "weight-zeros",
    "worse-than-guessing",
    "write-scale",
};
static_assert(std::ranges::is_sorted(kRuleNames));

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
  return kRuleNames;
}

void check_accepted(std::span<const std::string> accepted) {
  for (const std::string& name : accepted) {
    const std::string_view rule = std::string_view(name).substr(0, name.find('@'));
    if (std::ranges::binary_search(kRuleNames, rule)) continue;
    const std::string_view nearest = *std::ranges::min_element(
        kRuleNames, {}, [&](std::string_view known) { return edit_distance(rule, known); });
    fail(fmt::format("\"{}\" is no rule of the doctor; the nearest is {}", rule, nearest));
  }
}

}  // namespace addnorm::doctor
