#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "addnorm/nn/initialize.h"
#include "addnorm/norm.h"
#include "probe/profiler.h"

namespace addnorm::io {

/// What the code of a model's norms says: their kind, ε, and what γ means.
struct DeclaredNorm {
  std::optional<NormKind> kind;
  double eps = 0;
  std::optional<GammaForm> gamma_form;

  bool operator==(const DeclaredNorm&) const = default;
};

/// Layers of one make behind those of another, as a language model's are behind a vision tower's.
struct Stack {
  std::size_t first_layer = 0;
  DeclaredNorm norm;

  bool operator==(const Stack&) const = default;
};

/// What a profile says about the model that it was measured on.
struct ProfileModel {
  std::size_t d_model = 0;
  std::size_t n_layers = 0;
  std::size_t n_heads = 0;
  std::size_t d_ff = 0;
  std::string placement;
  std::size_t n_lanes = 0;  ///< of the stream, where it has several
  std::string lane_form;    ///< what the code says of them: "mhc"
  std::optional<NormKind> norm;
  double eps = 0;
  std::optional<GammaForm> gamma_form;
  std::optional<Initialization> initialization;
  std::string architecture;  ///< the name of a class
  std::string model_type;    ///< as config.json says it
  std::size_t parameters = 0;
  std::vector<std::string> layer_modules;  ///< The module of each layer: "encoder.layer.3".
  /// The modules of the sublayers in each layer: "decoder.layer.3.cross_attn". They are only known
  /// for networks of several stacks, and empty for a sublayer that is missing.
  std::vector<std::string> attention_modules, feed_forward_modules;
  std::vector<Stack> stacks;  ///< where their norms differ
  std::uint64_t seed = 0;

  /// Of a layer; of n_layers those behind the last one.
  [[nodiscard]] DeclaredNorm norm_at(std::size_t layer) const {
    DeclaredNorm found{norm, eps, gamma_form};
    for (const Stack& stack : stacks) {
      if (stack.first_layer <= layer) found = stack.norm;
    }
    return found;
  }
};

/// How much of what a model computes was measured, where that is known.
struct Coverage {
  struct Count {
    std::string what;  ///< "sums", "norms", "attentions"
    std::size_t measured = 0;
    std::size_t seen = 0;
  };
  struct LeftOut {
    std::string where, why;
  };
  std::vector<Count> counts;
  std::vector<LeftOut> left_out;
};

/// What was seen when something changed that should matter, or should not: {"step":0,
/// "check":"future-leak","value":0.12,"limit":1e-05,"where":"layers.2","declared":"it is trained on
/// the next token"}. docs/doctor.md has the names under the rules that judge them.
struct Check {
  std::size_t step = 0;
  std::string name;
  double value = 0;
  double limit = std::numeric_limits<double>::quiet_NaN();  ///< what value was compared with
  std::string where;     ///< a module or parameter by its name, or "output"
  std::string declared;  ///< why the model should do otherwise, where something says so
  std::string detail;    ///< what else was seen

  bool operator==(const Check&) const = default;
};

/// A profile as JSON lines: {"addnorm_profile":1,"model":{…}}, then one line for each entry:
///   {"step":0,"layer":3,"sublayer":"attention","point":"sum","rms":…,"mean":…,"std":…,
///    "abs_max":…,"grad_rms":…,"token_cosine":…}
/// with ProfileEntry's members as keys. Layers count from 0; entries outside the layers (embedding,
/// final_norm, head) have none. A value inside a norm, and its parameters, also say which:
/// "norm":"before"; a weight "weight":"query"; the sum of a stream of several lanes its lane, from
/// 0 on, unless that is 0: "lane":2. What is unknown has no key; where a value was infinite or NaN
/// the line says "finite":false. The first line may also say how much was measured:
///   "coverage":{"sums":[24,24],"norms":[49,49],"left_out":[{"where":"layer 3","why":"…"}]}
/// with what was measured and what was seen of each. A file may hold several profiles, one after
/// the other.
std::string profile_json_lines(const ProfileModel& model,
                               const std::vector<probe::ProfileEntry>& entries);

/// The same in two parts, for a file that grows.
std::string profile_header(const ProfileModel& model);
std::string profile_lines(const std::vector<probe::ProfileEntry>& entries);
std::string check_lines(const std::vector<Check>& checks);

struct Profile {
  ProfileModel model;
  Coverage coverage = {};
  std::vector<probe::ProfileEntry> entries;  ///< in the order of their steps
  std::vector<Check> checks;                 ///< likewise
};

/// The profiles in such a text, in their order. What it does not say is unknown, but for where an
/// entry belongs: sublayer, point and, within the layers, layer; and the value of a check. Keys
/// that are not known are passed over; `file` is for messages. A last line without its end is left
/// out.
std::vector<Profile> parse_profiles(const std::string& text, const std::string& file);

/// "layer 3, feed_forward, branch", by the names that a profile has.
std::string site_text(const Site& site);

}  // namespace addnorm::io
