#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "addnorm/nn/placement.h"
#include "lab/trace.h"

namespace addnorm::lab {

using Rows = std::vector<std::vector<double>>;  ///< a matrix, or lanes

/// The requested Add & Norm and its stack.
struct SiteArgs {
  std::string_view placement;  ///< a description for parse_placements()
  std::size_t layers = 12;     ///< of the stack
  std::size_t layer = 0;       ///< from 1; 0: the first one that fits the other arguments
  std::optional<SublayerKind> sublayer = {};
  std::size_t lanes = 0;  ///< of the stream at its start; 0: the number given, or the usual one
  std::size_t given_lanes = 1;  ///< 1: in a stream of several lanes, the row from which it begins
};

/// One Add & Norm of a stack.
struct TraceSite {
  std::vector<BlockPlacement> placements;
  Placement placement;
  Place place;
  std::size_t starting_lanes = 1;
};

/// Finds the site. Throws an Error that names the argument if no stack has it.
TraceSite find_site(const SiteArgs& args);

/// Returns the short placement of trace() for this site, if it has one.
std::optional<TracePlacement> short_form(const TraceSite& site);

/// One token at that Add & Norm, with the initial values of all parameters.
struct SiteTraceArgs {
  std::span<const std::vector<double>> x;  ///< one row, or one for each lane
  std::span<const double> branch;          ///< output of F; empty: unknown
  NormOptions norm = {};                   ///< kLayer or kRms, for every norm
  std::span<const double> gamma = {};      ///< for every norm, as in TraceArgs
  std::span<const double> beta = {};
};

/// Every step in float64, computed by the code of a stack. Without a branch, the steps after F are
/// empty. A stream without lanes counts as one of one lane: the given row is the stream, or, before
/// the first sublayer, the embedding.
struct SiteTrace {
  Placement placement;
  Place place;
  NormOptions norm;
  bool begins = false;              ///< whether the given row is the embedding, with which X begins
  std::optional<NormTrace> entry;   ///< of the embedding, if the first lane begins with its norm
  Rows lanes;                       ///< X
  Rows read, carry, write;          ///< a, A (n′ × n) and b, with their initial numbers
  Rows read_from;                   ///< lanes that a weights: X, R(X) or A·X
  std::vector<double> z;            ///< a·read_from; with several mixes, the first one (values)
  std::optional<NormTrace> before;  ///< of z
  std::vector<double> h;            ///< input of F
  std::vector<double> branch;       ///< F(h)
  std::optional<NormTrace> inside;  ///< of F(h)
  std::vector<double> f, u;         ///< u is the Update of f and z
  Rows carried, written;            ///< A·X and b ⊗ u
  Rows sum;                         ///< A·X + b ⊗ u
  std::optional<NormTrace> after;   ///< of the first lane of the sum
  Rows output;                      ///< X′
};

SiteTrace trace_site(const TraceSite& site, const SiteTraceArgs& args);

/// Without lanes, the result has the keys of to_json(Trace) and then all steps. The keys describe
/// the first norm among before, after and inside, or the sum. With lanes it has only the steps.
nlohmann::ordered_json to_json(const SiteTrace& trace);

}  // namespace addnorm::lab
