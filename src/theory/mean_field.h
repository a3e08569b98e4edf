#pragma once

#include <cstddef>
#include <vector>

#include "addnorm/nn/initialize.h"
#include "addnorm/nn/placement.h"
#include "addnorm/nn/probe.h"
#include "addnorm/nn/stack.h"
#include "addnorm/norm.h"

/// What theory predicts for a stack of random weights, site by site, as a probe measures it
/// (docs/theory.md derives it). Mean field: each layer is so wide that a feature is a sum of many
/// independent ones, so that second moments of tokens determine those behind the layer (Poole et
/// al. 2016; Schoenholz et al. 2017).

namespace addnorm::theory {

/// Second moments of the tokens of one sequence, per feature.
struct TokenMoments {
  double power = 0;    ///< E[x_i²] of a token
  double overlap = 0;  ///< E[x_i·x_j] of two tokens

  double cosine() const { return overlap / power; }
};

/// How attention's queries start. Theory is about kZero: attention averages over all tokens.
enum class Queries { kZero, kDrawn };

/// An encoder before its first step, with ReLU in the feed-forward, γ = 1 and β = 0, no dropout.
struct WideStack {
  std::vector<BlockPlacement> placements;
  FinalNorm final_norm = FinalNorm::kAsPlacement;
  std::size_t tokens = 1;  ///< of the sequence
  std::size_t d_model = 0;
  std::size_t d_ff = 0;
  NormOptions norm = {};  ///< of every slot; of kLayer and kRms alike ε in the variance
  Initialization initialization = Initialization::kXavier;
  Queries queries = Queries::kZero;
};

/// Of the values at a site, and of the loss's gradient there.
struct SiteMoments {
  Site site;
  TokenMoments value;
  TokenMoments gradient;
};

struct StackMoments {
  std::vector<SiteMoments> sites;  ///< in the order of the forward pass
  std::vector<double>
      down_gradient;  ///< of each layer: E‖∂loss/∂W‖² of the feed-forward's second W

  /// Error if the stack has no such site.
  const SiteMoments& at(const Site& site) const;
  /// The stream that layer `place` reads, or that the last one leaves (as stream_entry).
  const SiteMoments& stream(std::size_t place) const;
};

/// Whether theory covers this placement: nothing random or gated in what is added, and lanes that
/// are not parts of one stream's features.
bool covers(const Placement& placement);

/// Error unless the queries are 0 and all placements are covered, and those of several lanes have
/// no norm that squashes. `input`: of what the stack reads; `gradient`: of the loss's gradient by
/// what it gives.
StackMoments predict(const WideStack& stack, const TokenMoments& input,
                     const TokenMoments& gradient);

}  // namespace addnorm::theory
