#include "theory/depth_mixing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/require.h"

namespace addnorm::theory {
namespace {

using Row = std::vector<double>;
using Map = MixForm::Map;

struct BareSublayer {
  const Placement* placement;
  Place place;
};

bool is_covered(const Placement& placement) {
  return placement.update != Update::kGated && !placement.lanes.splits_features;
}

std::vector<BareSublayer> bare_sublayers(const BareStack& stack) {
  std::vector<BareSublayer> all;
  for_each_add_norm(stack.placements, lanes_before(stack.placements, 0, 0), stack.placements.size(),
                    [&](const Placement& placement, const Place& place) {
                      all.push_back({&placement, place});
                    });
  return all;
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// Softmax of each run of `count` logits.
void softmax(Row& logits, std::size_t count) {
  for (std::size_t first = 0; first < logits.size(); first += count) {
    double sum = 0;
    for (std::size_t k = first; k < first + count; ++k) sum += std::exp(logits[k]);
    for (std::size_t k = first; k < first + count; ++k) logits[k] = std::exp(logits[k]) / sum;
  }
}

Row permutation_mixture(Row logits, std::size_t n) {
  softmax(logits, logits.size());
  Row matrix(n * n);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (const double weight : logits) {
    for (std::size_t i = 0; i < n; ++i) matrix[i * n + order[i]] += weight;
    std::ranges::next_permutation(order);
  }
  return matrix;
}

std::size_t factorial(std::size_t n) {
  return n < 2 ? 1 : n * factorial(n - 1);
}

/// Returns the to × from numbers of a mix whose weights are 0.
Row mix_numbers(const MixForm& form, const Place& place, std::size_t to, std::size_t from,
                const Row& learned) {
  if (form.source == MixForm::Source::kPrevious && place.site() == 0) {  // it reads the first lane
    Row numbers(to * from);
    numbers[0] = 1;
    return numbers;
  }
  Row logits(form.map == Map::kPermutations ? factorial(from) : to * from);
  std::size_t next = 0;
  for (std::size_t k = 0; k < logits.size(); ++k) {
    const bool is_learned = form.learned(place, k / from, k % from);
    logits[k] =
        is_learned && !learned.empty() ? learned.at(next++) : form.base(place, k / from, k % from);
    if (is_learned && form.gate == MixForm::Gate::kSigmoid) logits[k] = sigmoid(logits[k]);
  }
  switch (form.map) {
    case Map::kNone:
      return logits;
    case Map::kSigmoid:
      for (double& x : logits) x = sigmoid(x);
      return logits;
    case Map::kTwoSigmoid:
      for (double& x : logits) x = 2 * sigmoid(x);
      return logits;
    case Map::kSoftmax:
      softmax(logits, from);
      return logits;
    case Map::kSinkhorn:
      return sinkhorn_knopp(logits, from);
    case Map::kPermutations:
      return permutation_mixture(logits, from);
  }
  return logits;
}

/// Returns left·right; their inner size is `inner`.
Row product(const Row& left, const Row& right, std::size_t inner) {
  const std::size_t rows = left.size() / inner, cols = right.size() / inner;
  Row out(rows * cols);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t k = 0; k < inner; ++k) {
      for (std::size_t j = 0; j < cols; ++j) {
        out[i * cols + j] += left[i * inner + k] * right[k * cols + j];
      }
    }
  }
  return out;
}

LaneNumbers numbers_of(const BareSublayer& sublayer, const LearnedNumbers& learned) {
  const Placement& placement = *sublayer.placement;
  const Place& place = sublayer.place;
  require(is_covered(placement), "theory does not cover the stream of placement \"{}\"",
          placement.name);
  if (!placement.lanes.several()) {
    return {.read = {1},
            .carry = {placement.skip.initial.value(place.depth)},
            .write = {placement.gain.initial.value(place.depth)}};
  }
  const LaneForm& form = placement.lanes;
  const std::size_t n = place.lanes;
  LaneNumbers numbers{.lanes = n, .lanes_after = n};
  if (form.changes(place) == Changes::kAll) {
    numbers.carry = mix_numbers(form.carry, place, n, n, learned.carry);
    numbers.write = mix_numbers(form.write, place, n, 1, learned.write);
  } else {
    numbers.carry.resize(n * n);
    for (std::size_t i = 0; i < n; ++i) numbers.carry[i * n + i] = 1;
    if (form.changes(place) == Changes::kAppend) {
      const Row appended = mix_numbers(form.carry, place, 1, n, learned.carry);
      numbers.carry.insert(numbers.carry.end(), appended.begin(), appended.end());
      ++numbers.lanes_after;
    }
    numbers.write.resize(numbers.lanes_after);
    numbers.write.back() = 1;
  }
  const std::size_t read_from = form.reads_carried ? numbers.lanes_after : n;
  numbers.read = mix_numbers(form.read, place, form.reads(place), read_from, learned.read);
  numbers.read.resize(read_from);
  if (form.reads_carried) numbers.read = product(numbers.read, numbers.carry, read_from);
  return numbers;
}

/// The contents of lanes: a row for each lane, a column for x and for each sublayer's output.
class Contents {
 public:
  Contents(const BareStack& stack, std::size_t sublayers)
      : d_model_(static_cast<double>(stack.d_model)), powers_(stack.branch_power) {
    if (powers_.empty()) powers_.assign(sublayers, 1);
    powers_.insert(powers_.begin(), 1);  // power of x
  }

  std::size_t size() const { return powers_.size(); }
  /// Applies the norm of a slot to a row.
  void normalize(Slot slot, Row& row) const {
    if (slot == Slot::kNothing) return;
    double power = 0;
    for (std::size_t j = 0; j < row.size(); ++j) power += row[j] * row[j] * powers_[j];
    const double root = std::sqrt(slot == Slot::kUnit ? d_model_ * power : power);
    for (double& entry : row) entry /= root;
  }

 private:
  double d_model_;
  Row powers_;
};

/// Returns a·R(X).
Row read(const Row& a, const std::vector<Row>& lanes, Slot last_lane, const Contents& contents) {
  Row z(contents.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    Row lane = lanes[i];
    if (i + 1 == lanes.size()) contents.normalize(last_lane, lane);
    for (std::size_t j = 0; j < z.size(); ++j) z[j] += a[i] * lane[j];
  }
  return z;
}

bool has_final_norm(const BareStack& stack) {
  if (stack.final_norm != FinalNorm::kAsPlacement) return stack.final_norm == FinalNorm::kYes;
  return stack.placements.back().feed_forward.final_norm == Slot::kNorm;
}

}  // namespace

bool covers_stream(const std::vector<BlockPlacement>& placements) {
  return std::ranges::all_of(placements, [](const BlockPlacement& block) {
    return is_covered(block.attention) && is_covered(block.feed_forward);
  });
}

std::vector<LaneNumbers> lane_numbers(const BareStack& stack) {
  std::vector<LaneNumbers> all;
  for (const BareSublayer& sublayer : bare_sublayers(stack)) {
    const std::size_t site = all.size();
    all.push_back(
        numbers_of(sublayer, stack.learned.empty() ? LearnedNumbers{} : stack.learned.at(site)));
  }
  return all;
}

std::vector<std::vector<double>> depth_mixing(const BareStack& stack) {
  const std::vector<BareSublayer> sublayers = bare_sublayers(stack);
  const std::vector<LaneNumbers> numbers = lane_numbers(stack);
  const Contents contents(stack, sublayers.size());
  std::vector<Row> mixing;

  // X_0 = u ⊗ x, whose first lane goes through the entry norm.
  const Placement& first = stack.placements.front().attention;
  std::vector<Row> lanes(numbers.front().lanes, Row(contents.size()));
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i][0] = first.lanes.enter(i);
  contents.normalize(first.entry, lanes[0]);

  for (std::size_t l = 0; l < sublayers.size(); ++l) {
    const Placement& placement = *sublayers[l].placement;
    const LaneNumbers& n = numbers[l];
    const Row z = read(n.read, lanes, placement.lanes.last_lane, contents);
    mixing.push_back(z);
    Row u(contents.size());
    u[l + 1] = 1;
    contents.normalize(placement.inside, u);
    if (placement.inside != Slot::kNothing) {
      u[l + 1] *= placement.inside_gamma.value(sublayers[l].place.depth);
    }
    if (placement.update == Update::kDifference) {
      for (std::size_t j = 0; j < u.size(); ++j) u[j] -= z[j];
    }
    std::vector<Row> after(n.lanes_after, Row(contents.size()));
    for (std::size_t i = 0; i < after.size(); ++i) {
      for (std::size_t j = 0; j < u.size(); ++j) {
        after[i][j] = n.write[i] * u[j];
        for (std::size_t k = 0; k < lanes.size(); ++k) {
          after[i][j] += n.carry[i * lanes.size() + k] * lanes[k][j];
        }
      }
    }
    contents.normalize(placement.after, after[0]);
    lanes = after;
  }

  // z = c·R(X), through the final norm.
  const LaneForm& last = stack.placements.back().feed_forward.lanes;
  const std::size_t layers = stack.placements.size();
  const Place behind{.depth = {layers + 1, layers}, .lanes = lanes.size()};
  const Row learned = stack.learned.empty() ? Row{} : stack.learned.back().read;
  const Row exit =
      last.several() ? mix_numbers(last.exit, behind, 1, lanes.size(), learned) : Row{1};
  Row end = read(exit, lanes, last.last_lane_at_exit, contents);
  if (has_final_norm(stack)) contents.normalize(Slot::kNorm, end);
  mixing.push_back(end);
  return mixing;
}

std::vector<double> sinkhorn_knopp(const std::vector<double>& logits, std::size_t n) {
  constexpr double kClose = 1e-12;
  constexpr int kMostRounds = 100'000;
  Row matrix;
  for (const double logit : logits) matrix.push_back(std::exp(logit));
  const auto divide = [&](std::size_t first, std::size_t step) {
    double sum = 0;
    for (std::size_t k = 0; k < n; ++k) sum += matrix[first + k * step];
    for (std::size_t k = 0; k < n; ++k) matrix[first + k * step] /= sum;
    return std::abs(sum - 1);
  };
  double error = 1;
  for (int round = 0; error > kClose && round < kMostRounds; ++round) {
    error = 0;
    for (std::size_t i = 0; i < n; ++i) error = std::max(error, divide(i * n, 1));
    for (std::size_t j = 0; j < n; ++j) error = std::max(error, divide(j, n));
  }
  return matrix;
}

/// The trace of G^(2^k), with G = MᵀM, is λ₁^(2^k) times a factor between 1 and n.
double spectral_norm(std::vector<double> matrix, std::size_t n) {
  constexpr int kSquarings = 40;
  Row transposed(n * n);
  for (std::size_t k = 0; k < n * n; ++k) transposed[k % n * n + k / n] = matrix[k];
  Row g = product(transposed, matrix, n);
  double log_norm = 0, part = 0.5;  // for G, whose norm is the square of M's
  for (int k = 0; k < kSquarings; ++k) {
    double trace = 0;
    for (std::size_t i = 0; i < n; ++i) trace += g[i * n + i];
    if (trace == 0) return 0;
    log_norm += part * std::log(trace);
    for (double& v : g) v /= trace;
    g = product(g, g, n);
    part /= 2;
  }
  return std::exp(log_norm);
}

}  // namespace addnorm::theory
