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

/// Which Add & Norm of which stack is asked for.
struct SiteArgs {
  std::string_view placement;  ///< as parse_placements() takes it
  std::size_t layers = 12;     ///< of the stack
  std::size_t layer = 0;       ///< from 1; 0: the first one that fits the rest
  std::optional<SublayerKind> sublayer = {};
  std::size_t lanes = 0;        ///< that the stream starts with; 0: as many as are given, or usual
  std::size_t given_lanes = 1;  ///< 1: of a stream of several lanes, what it begins with
};

/// One Add & Norm of a stack.
struct TraceSite {
  std::vector<BlockPlacement> placements;
  Placement placement;
  Place place;
  std::size_t starting_lanes = 1;
};

/// An Error that names the argument for what no stack has.
TraceSite find_site(const SiteArgs& args);

/// Which of the placements whose norm alone is explained, by trace(), stands there, or none.
std::optional<TracePlacement> short_form(const TraceSite& site);

/// One token on its way through that Add & Norm, at the starting values of all parameters.
struct SiteTraceArgs {
  std::span<const std::vector<double>> x;  ///< one row, or one for each lane
  std::span<const double> branch;          ///< what F gives back; empty: not known
  NormOptions norm = {};                   ///< kLayer or kRms, of every norm
  std::span<const double> gamma = {};      ///< of every norm, as of TraceArgs
  std::span<const double> beta = {};
};

/// Every step of the way, in float64, by the code of a stack. Without a branch, what comes behind F
/// is empty. A stream without lanes counts as one of one lane: the row that is given is what the
/// stream holds, or the embedding before the first sublayer.
struct SiteTrace {
  Placement placement;
  Place place;
  NormOptions norm;
  bool begins = false;  ///< whether the row that was given is the embedding, with which X begins
  std::optional<NormTrace> entry;   ///< of the embedding, where the first lane begins with its norm
  Rows lanes;                       ///< X
  Rows read, carry, write;          ///< a, A (n′ × n) and b, at the start
  Rows read_from;                   ///< what a reads: X, R(X) or A·X
  std::vector<double> z;            ///< a·read_from; of several mixes the first, of values
  std::optional<NormTrace> before;  ///< of z
  std::vector<double> h;            ///< what F sees
  std::vector<double> branch;       ///< F(h)
  std::optional<NormTrace> inside;  ///< of F(h)
  std::vector<double> f, u;         ///< u is what f and z make
  Rows carried, written;            ///< A·X and b ⊗ u
  Rows sum;                         ///< A·X + b ⊗ u
  std::optional<NormTrace> after;   ///< of the first lane of the sum
  Rows output;                      ///< X′
};

SiteTrace trace_site(const TraceSite& site, const SiteTraceArgs& args);

/// Without lanes the keys of to_json(Trace), of the first norm of before, after and inside that
/// there is, or of the sum; then all steps. With lanes all steps alone.
nlohmann::ordered_json to_json(const SiteTrace& trace);

}  // namespace addnorm::lab
