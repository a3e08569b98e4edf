#pragma once

#include <cstddef>
#include <vector>

#include "addnorm/nn/initialize.h"
#include "addnorm/nn/placement.h"
#include "addnorm/nn/probe.h"
#include "addnorm/nn/stack.h"
#include "addnorm/norm.h"

/// Theory's predictions for a stack of random weights, site by site, in the quantities that a probe
/// measures (docs/theory.md derives them). Mean field: each layer is so wide that a feature is a
/// sum of many independent terms. So second moments of tokens determine those after the layer
/// (Poole et al. 2016; Schoenholz et al. 2017).

namespace addnorm::theory {

/// Second moments of the tokens of one sequence, per feature.
struct TokenMoments {
  double power = 0;    ///< E[x_i²] of a token
  double overlap = 0;  ///< E[x_i·x_j] of two tokens

  double cosine() const { return overlap / power; }
};

/// The initial weights of attention's queries. Theory needs kZero: attention then averages over all
/// tokens.
enum class Queries { kZero, kDrawn };

/// An encoder before its first step, with ReLU in the feed-forward, γ = 1 and β = 0, no dropout.
struct WideStack {
  std::vector<BlockPlacement> placements;
  FinalNorm final_norm = FinalNorm::kAsPlacement;
  std::size_t tokens = 1;  ///< in the sequence
  std::size_t d_model = 0;
  std::size_t d_ff = 0;
  NormOptions norm = {};  ///< for every slot; kLayer and kRms have ε in the variance
  Initialization initialization = Initialization::kXavier;
  Queries queries = Queries::kZero;
};

/// The moments of the values at a site, and of the loss's gradient there.
struct SiteMoments {
  Site site;
  TokenMoments value;
  TokenMoments gradient;
};

struct StackMoments {
  std::vector<SiteMoments> sites;  ///< in the order of the forward pass
  std::vector<double>
      down_gradient;  ///< of each layer: E‖∂loss/∂W‖² of the feed-forward's second W

  /// Returns the moments at a site; throws an Error if the stack has no such site.
  const SiteMoments& at(const Site& site) const;
  /// Returns the moments of the stream at the input of layer `place`, or at the output of the last
  /// layer (like stream_entry).
  const SiteMoments& stream(std::size_t place) const;
};

/// Returns whether theory covers this placement: it adds nothing random or gated, and has no lanes
/// that are parts of one stream's features.
bool covers(const Placement& placement);

/// Predicts all sites. Throws an Error unless the queries are 0, all placements are covered, and
/// those of several lanes have no squashing norm. `input` are the moments of the stack's input,
/// `gradient` those of the loss's gradient with respect to its output.
StackMoments predict(const WideStack& stack, const TokenMoments& input,
                     const TokenMoments& gradient);

}  // namespace addnorm::theory
