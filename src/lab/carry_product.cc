#include "lab/carry_product.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace addnorm::lab {
namespace {

using Map = MixForm::Map;

std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b,
                            std::size_t n) {
  std::vector<double> out(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t j = 0; j < n; ++j) out[i * n + j] += a[i * n + k] * b[k * n + j];
    }
  }
  return out;
}

// Logits of four lanes, each of which keeps about four fifths of itself.
double own_logit(const Place&, std::size_t to, std::size_t from) {
  return to == from ? 3 : 0;
}
double first_logit(const Place&, std::size_t to, std::size_t from) {
  return to == 0 && from == 0 ? 5 : 0;
}

bool mixes_all(const Placement& placement) {
  const LaneForm& form = placement.lanes;
  return form.several() && !form.grows && !form.splits_features &&
         placement.after == Slot::kNothing;
}

}  // namespace

Message has_no_product(const std::vector<BlockPlacement>& placements) {
  const bool mixes = std::ranges::all_of(placements, [](const BlockPlacement& block) {
    return mixes_all(block.attention) && mixes_all(block.feed_forward);
  });
  return mixes ? "" : msg("this stream has no lanes that are carried by matrices alone");
}

CarryKind carry_kind(const std::vector<BlockPlacement>& placements) {
  const std::size_t n = lanes_before(placements, 0, 0);
  bool is_learned = true, is_identity = true, is_plain = true;
  for (std::size_t l = 0; l < placements.size(); ++l) {
    for (const SublayerKind kind : {SublayerKind::kAttention, SublayerKind::kFeedForward}) {
      const bool is_attention = kind == SublayerKind::kAttention;
      const MixForm& carry =
          (is_attention ? placements[l].attention : placements[l].feed_forward).lanes.carry;
      const Place place{{l + 1, placements.size()}, kind, n};
      is_plain = is_plain && carry.map == Map::kNone;
      for (std::size_t k = 0; k < n * n; ++k) {
        const bool learns = carry.learned(place, k / n, k % n);
        const double is_diagonal = k / n == k % n;
        is_learned = is_learned && learns;
        is_identity = is_identity && !learns && carry.base(place, k / n, k % n) == is_diagonal;
      }
    }
  }
  if (is_identity) return CarryKind::kIdentity;
  if (!is_learned) return CarryKind::kOther;
  return is_plain ? CarryKind::kNumbers : CarryKind::kDoublyStochastic;
}

DrawnStack drawn_stack(std::vector<BlockPlacement> placements) {
  if (carry_kind(placements) != CarryKind::kDoublyStochastic) return {std::move(placements), 0.1};
  for (BlockPlacement& block : placements) {
    for (Placement* placement : {&block.attention, &block.feed_forward}) {
      MixForm& carry = placement->lanes.carry;
      if (carry.map == Map::kSinkhorn) carry.base = own_logit;
      if (carry.map == Map::kPermutations) carry.base = first_logit;
    }
  }
  return {std::move(placements), 1};
}

std::vector<std::vector<double>> products(const std::vector<theory::LaneNumbers>& numbers) {
  std::vector<std::vector<double>> all;
  all.reserve(numbers.size());
  for (const theory::LaneNumbers& of_sublayer : numbers) {
    all.push_back(all.empty() ? of_sublayer.carry
                              : product(of_sublayer.carry, all.back(), of_sublayer.lanes));
  }
  return all;
}

double difference_left(const std::vector<double>& matrix, std::size_t n) {
  std::vector<double> without_mean(n * n, -1 / static_cast<double>(n));
  for (std::size_t i = 0; i < n; ++i) without_mean[i * n + i] += 1;
  double sum = 0;
  for (const double entry : product(product(without_mean, matrix, n), without_mean, n)) {
    sum += entry * entry;
  }
  return std::sqrt(sum / static_cast<double>(n - 1));
}

double largest_sum(const std::vector<double>& matrix, std::size_t n) {
  double largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double row = 0, column = 0;
    for (std::size_t k = 0; k < n; ++k) {
      row += std::abs(matrix[i * n + k]);
      column += std::abs(matrix[k * n + i]);
    }
    largest = std::max({largest, row, column});
  }
  return largest;
}

CarryProducts carry_products(const std::vector<BlockPlacement>& placements, const MixDraw& draw,
                             const SilentBug* bug) {
  CarryProducts products{.lanes = lanes_before(placements, 0, 0)};
  const std::size_t n = products.lanes;
  const Blocks blocks(n);
  BareStream stream(bare_plan(placements, blocks.d_model(), bug), draw);

  Matrix<double> lanes(n, blocks.d_model());
  for (std::size_t i = 0; i < n; ++i) {
    residual_add<double>({.x = blocks.row(i)}, lanes.view().block(i, 0, 1, lanes.cols()));
  }
  for (const Matrix<double>& behind : stream.carry(lanes)) {
    std::vector<double>& of_sublayer = products.measured.emplace_back();
    for (std::size_t i = 0; i < n; ++i) {
      std::ranges::copy(blocks.parts(behind.view().row(i)), std::back_inserter(of_sublayer));
    }
  }
  const std::vector<theory::LaneNumbers> numbers =
      theory::lane_numbers({.placements = placements, .learned = stream.learned()});
  products.predicted = lab::products(numbers);
  for (const theory::LaneNumbers& of_sublayer : numbers) {
    products.carries.push_back(of_sublayer.carry);
  }
  return products;
}

CarryDraws carry_draws(const DrawnStack& stack, const FigureOptions& options,
                       double (*number)(const std::vector<double>& matrix, std::size_t n)) {
  CarryDraws draws;
  for (std::size_t i = 0; i < options.seeds; ++i) {
    const CarryProducts& products = draws.products.emplace_back(carry_products(
        stack.placements, {.spread = stack.spread, .seed = options.seed + i}, options.bug));
    const auto numbers = [&](const std::vector<std::vector<double>>& matrices) {
      std::vector<double> all;
      for (const auto& matrix : matrices) all.push_back(number(matrix, products.lanes));
      return all;
    };
    draws.measured.push_back(numbers(products.measured));
    draws.predicted.push_back(numbers(products.predicted));
  }
  for (std::size_t l = 1; l <= draws.measured[0].size(); ++l) {
    draws.sublayers.push_back(static_cast<double>(l));
  }
  return draws;
}

}  // namespace addnorm::lab
