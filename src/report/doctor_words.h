#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "doctor/layer_numbers.h"
#include "report/doctor_report.h"
#include "report/table.h"

/// The parts that the doctor's reports share: words, groups of findings, the table by layer.

namespace addnorm::report {

struct SeverityLook {
  const char* name;
  const char* mark;
  Ink ink;
};
const SeverityLook& look(doctor::Severity severity);

/// A number of each layer: its key in JSON and its column's heading.
struct LayerColumn {
  const char* key;
  const char* name;
  double doctor::LayerNumbers::*member;
};
inline constexpr std::array<LayerColumn, 8> kLayerColumns{{
    {"stream_rms", "stream", &doctor::LayerNumbers::stream},
    {"attention_share", "attn", &doctor::LayerNumbers::attention},
    {"feed_forward_share", "ff", &doctor::LayerNumbers::feed_forward},
    {"layer_cosine", "cosine", &doctor::LayerNumbers::cosine},
    {"token_cosine", "tokens", &doctor::LayerNumbers::tokens},
    {"logits_max", "logits", &doctor::LayerNumbers::logits},
    {"entropy", "entropy", &doctor::LayerNumbers::entropy},
    {"grad_rms", "gradient", &doctor::LayerNumbers::gradient},
}};
extern const char* const kLayerCaption;

std::string short_number(double value);

/// Returns all rows; if there are more than `most`, the first, the last and some between.
Table layer_table(const std::vector<doctor::LayerNumbers>& rows, std::size_t most);

/// Returns "gpt2, pre-norm, LayerNorm, ε 1e-05, 12 layers of width 768"; it begins with the model's
/// name if there is no class.
std::string model_text(const doctor::Subject& subject);
/// Returns "Measured on 2 × 64 random tokens: a loss of 5.55 nats."
std::string input_text(const doctor::Subject& subject);
/// Returns the modules of the layers, where one number counts those of several stacks: "Layers 0 to
/// 5 are encoder.block.0 to encoder.block.5; …". Empty for a network of one stack.
std::string stacks_text(const io::ProfileModel& model);

/// Returns "Effective depth: 9.3 of 12 layers …", or "".
std::string depth_text(const std::vector<doctor::LayerNumbers>& rows);

/// Findings of one rule and severity with one fix, at several places.
struct Group {
  std::vector<const doctor::Finding*> findings;
  const doctor::Finding& worst() const;
};
std::vector<Group> grouped(const std::vector<doctor::Finding>& findings);
std::vector<Group> grouped(const std::vector<const doctor::Finding*>& findings);
/// Returns "layers 3 to 5 and 9, attention; final norm".
std::string places(const Group& group);

/// Returns "gradient-missing, layers.2.attn; 3 more": the findings that follow from these.
std::string effects_text(const Group& group);

/// Returns "warm-up 0 → 100: loss 3.1 → 2.5, mended in 100 steps", for each remedy that was tried.
std::vector<std::string> proof_texts(const Diagnosis& diagnosis, const Group& group);

/// Returns "Measured: 24 of 24 sums, 49 of 49 norms.", or "" if the profile lacks the coverage.
std::string coverage_text(const io::Coverage& coverage);
/// Returns "Not measured: layer 3, attention (its output has another shape).", or "".
std::string left_out_text(const io::Coverage& coverage);
/// Whether, according to the profile, nothing was measured.
bool is_blind(const io::Coverage& coverage);

/// Returns "9 findings of 2 rules, 1 note, 3 accepted", green if the diagnosis is sound. A finding
/// is a rule at one place, as in JSON.
Cell verdict(const Diagnosis& diagnosis);

}  // namespace addnorm::report
