#include <nlohmann/json.hpp>
#include <string>

#include "addnorm/nn/initialize.h"
#include "addnorm/nn/placement.h"
#include "addnorm/nn/probe.h"
#include "cli/manual.h"
#include "lab/figure.h"
#include "train/trainer.h"

namespace addnorm::cli {

/// Returns the names in commands, files and other languages, grouped by kind.
std::string names_json(const CLI::App&) {
  nlohmann::ordered_json names;
  const auto put = [&names](const char* key, auto first) { names[key] = names_of(first); };
  put("norm", NormKind{});
  put("epsilon_at", EpsilonAt{});
  put("variance", Variance{});
  put("gamma_form", GammaForm{});
  put("activation", FeedForwardKind{});
  put("initialization", Initialization{});
  put("head", Head{});
  put("decay", train::Decay{});
  put("sublayer", SublayerKind{});
  put("point", Point{});
  put("slot", NormSlot{});
  put("weight", Projection{});
  put("verdict", lab::Verdict{});
  for (const Placement& placement : placements()) names["placement"].push_back(placement.name);
  for (const Mixture& mixture : mixtures()) names["placement"].push_back(mixture.name);
  for (const lab::Figure& figure : lab::figures()) names["figure"].push_back(figure.name);
  for (const lab::SilentBug& bug : lab::silent_bugs()) names["bug"].push_back(bug.name);
  return names.dump(1) + '\n';
}

}  // namespace addnorm::cli
