#include "io/profile.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

namespace addnorm {
namespace {

constexpr std::array<std::string_view, 5> kSublayers = {"attention", "feed_forward", "embedding",
                                                        "final_norm", "head"};
constexpr std::array<std::string_view, 10> kPoints = {
    "x", "before", "branch", "inside", "sum", "after", "mean", "deviation", "normalized", "output"};
constexpr std::array<std::string_view, 5> kNorms = {"", "before", "inside", "after", "final"};

nlohmann::ordered_json to_json(const ProfileEntry& entry) {
  const Site& site = entry.site;
  nlohmann::ordered_json line{{"step", entry.step}};
  if (site.sublayer == SublayerKind::kAttention || site.sublayer == SublayerKind::kFeedForward) {
    line["layer"] = site.layer;
  }
  line["sublayer"] = kSublayers.at(static_cast<std::size_t>(site.sublayer));
  if (site.norm != NormSlot::kNone) line["norm"] = kNorms.at(static_cast<std::size_t>(site.norm));
  line["point"] = kPoints.at(static_cast<std::size_t>(site.point));
  auto put = [&](const char* key, double value) {
    if (std::isfinite(value)) line[key] = value;
    if (std::isinf(value)) line["finite"] = false;
  };
  put("rms", entry.rms);
  put("mean", entry.mean);
  put("std", entry.std);
  put("abs_max", entry.abs_max);
  put("grad_rms", entry.grad_rms);
  put("token_cosine", entry.token_cosine);
  return line;
}

}  // namespace

std::string profile_json_lines(const ProfileModel& model,
                               const std::vector<ProfileEntry>& entries) {
  const nlohmann::ordered_json header{{"addnorm_profile", 1},
                                      {"model",
                                       {{"d_model", model.d_model},
                                        {"n_layers", model.n_layers},
                                        {"n_heads", model.n_heads},
                                        {"d_ff", model.d_ff},
                                        {"placement", model.placement},
                                        {"norm", model.norm},
                                        {"eps", model.eps},
                                        {"parameters", model.parameters},
                                        {"seed", model.seed}}}};
  std::string lines = header.dump() + "\n";
  for (const ProfileEntry& entry : entries) lines += to_json(entry).dump() + "\n";
  return lines;
}

}  // namespace addnorm
