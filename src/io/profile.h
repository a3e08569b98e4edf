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

/// The properties of a model's norms that its code declares: kind, ε and the meaning of γ.
struct DeclaredNorm {
  std::optional<NormKind> kind;
  double eps = 0;
  std::optional<GammaForm> gamma_form;

  bool operator==(const DeclaredNorm&) const = default;
};

/// A stack within a model's layers: a multimodal model has several, such as a vision tower and a
/// language model.
struct Stack {
  std::size_t first_layer = 0;
  DeclaredNorm norm;

  bool operator==(const Stack&) const = default;
};

/// The properties of the measured model that a profile contains.
struct ProfileModel {
  std::size_t d_model = 0;
  std::size_t n_layers = 0;
  std::size_t n_heads = 0;
  std::size_t d_ff = 0;
  std::string placement;
  std::size_t n_lanes = 0;  ///< of the stream; 0: one lane
  std::string lane_form;    ///< the code's name for their form: "mhc"
  std::optional<NormKind> norm;
  double eps = 0;
  std::optional<GammaForm> gamma_form;
  std::optional<Initialization> initialization;
  std::string architecture;  ///< class name
  std::string model_type;    ///< from config.json
  std::size_t parameters = 0;
  std::vector<std::string> layer_modules;  ///< the code's name of each layer: "encoder.layer.3"
  /// The modules of the sublayers in each layer: "decoder.layer.3.cross_attn". They are only known
  /// for networks of several stacks, and empty for a sublayer that is missing.
  std::vector<std::string> attention_modules, feed_forward_modules;
  std::vector<Stack> stacks;  ///< listed if their norms differ
  std::uint64_t seed = 0;

  /// Returns the norms of a layer; layer n_layers stands for the norms after the last layer.
  [[nodiscard]] DeclaredNorm norm_at(std::size_t layer) const {
    DeclaredNorm found{norm, eps, gamma_form};
    for (const Stack& stack : stacks) {
      if (stack.first_layer <= layer) found = stack.norm;
    }
    return found;
  }
};

/// The measured share of a model's computation, if known.
struct Coverage {
  struct Count {
    std::string what;  ///< "sums", "norms", "attentions"
    std::size_t measured = 0;
    std::size_t found = 0;
  };
  struct LeftOut {
    std::string where, why;
  };
  std::vector<Count> counts;
  std::vector<LeftOut> left_out;
};

/// The result of a test that changes an input or a weight and compares outputs: {"step":0,
/// "check":"future-leak","value":0.12,"limit":1e-05,"where":"layers.2","declared":"it is trained on
/// the next token"}. docs/doctor.md lists the names with the rules that judge them.
struct Check {
  std::size_t step = 0;
  std::string name;
  double value = 0;
  double limit = std::numeric_limits<double>::quiet_NaN();  ///< the limit of value
  std::string where;     ///< name of a module or parameter, or "output"
  std::string declared;  ///< the reason for the expected behaviour, if declared
  std::string detail;    ///< further observations

  bool operator==(const Check&) const = default;
};

/// A profile as JSON lines: {"addnorm_profile":1,"model":{…}}, then one line for each entry:
///   {"step":0,"layer":3,"sublayer":"attention","point":"sum","rms":…,"mean":…,"std":…,
///    "abs_max":…,"grad_rms":…,"token_cosine":…}
/// The keys are ProfileEntry's members. Layers count from 0; entries outside the layers (embedding,
/// final_norm, head) have no layer. A value inside a norm, and its parameters, also name the norm:
/// "norm":"before"; a weight has "weight":"query". The sum of a stream of several lanes has its
/// lane, from 0 on, unless that is 0: "lane":2. An unknown value has no key; if a value was
/// infinite or NaN, the line has "finite":false. The first line may also have the coverage:
///   "coverage":{"sums":[24,24],"norms":[49,49],"left_out":[{"where":"layer 3","why":"…"}]}
/// with the measured number and the number found of each. A file may hold several profiles, one
/// after the other.
std::string profile_json_lines(const ProfileModel& model,
                               const std::vector<probe::ProfileEntry>& entries);

/// The same in two parts, for a file to which lines are appended.
std::string profile_header(const ProfileModel& model);
std::string profile_lines(const std::vector<probe::ProfileEntry>& entries);
std::string check_lines(const std::vector<Check>& checks);

struct Profile {
  ProfileModel model;
  Coverage coverage = {};
  std::vector<probe::ProfileEntry> entries;  ///< in the order of their steps
  std::vector<Check> checks;                 ///< in the order of their steps
};

/// Returns the profiles in a text, in their order. Missing values are unknown, except that each
/// entry needs its sublayer, point and, within the layers, layer, and each check its value. Unknown
/// keys are ignored. `file` appears in messages. An incomplete last line is ignored.
std::vector<Profile> parse_profiles(const std::string& text, const std::string& file);

/// Returns "layer 3, feed_forward, branch", with the names of a profile.
std::string site_text(const Site& site);

}  // namespace addnorm::io
