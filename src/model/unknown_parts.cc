#include "model/unknown_parts.h"

#include <algorithm>

#include "io/json.h"

namespace addnorm::model {
namespace {

/// A part, and its evidence: keys whose value is neither null nor 0, false or empty, and pieces of
/// tensors' names.
struct UnknownPart {
  std::string_view name;
  std::vector<const char*> keys;
  std::vector<std::string_view> pieces;
};

const std::vector<UnknownPart>& parts() {
  static const std::vector<UnknownPart> all = {
      {"experts",
       {"num_experts", "num_local_experts", "n_routed_experts"},
       {".experts.", ".router.", "shared_expert"}},
      {"latent attention", {"kv_lora_rank"}, {".kv_a_proj", ".kv_b_proj"}},
      {"linear attention", {"linear_num_key_heads"}, {".linear_attn.", ".delta_net."}},
      {"state-space layers",
       {"ssm_cfg", "state_size", "mamba_d_state"},
       {".mamba.", ".mixer.A_log"}},
      {"a decoder beside an encoder", {"is_encoder_decoder"}, {}},
  };
  return all;
}

bool says(const io::Json& config, const char* key) {
  if (!config.contains(key)) return false;
  const io::Json& value = config[key];
  return !value.is_null() && value != 0 && value != false && !value.empty();
}

}  // namespace

std::vector<std::string_view> unknown_parts(const std::string& json,
                                            const std::vector<std::string>& tensors) {
  const io::Json config = io::parse_json(json, "config.json");
  const bool is_nested = config.contains("text_config") && config["text_config"].is_object();
  std::vector<std::string_view> found;
  for (const UnknownPart& part : parts()) {
    const bool by_key = std::ranges::any_of(part.keys, [&](const char* key) {
      return says(config, key) || (is_nested && says(config["text_config"], key));
    });
    const auto is_of_part = [&](const std::string& tensor) {
      return std::ranges::any_of(part.pieces, [&](std::string_view piece) {
        return tensor.find(piece) != std::string::npos;
      });
    };
    if (by_key || std::ranges::any_of(tensors, is_of_part)) found.push_back(part.name);
  }
  return found;
}

}  // namespace addnorm::model
