#include "lab/bare_stream.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "addnorm/torch_generator.h"
#include "lab/given_sublayer.h"

namespace addnorm::lab {
namespace {

/// Records the inputs of sublayers.
class Reads final : public Probe<double> {
 public:
  void forward(const Site& site, MatrixView<const double> values) override;
  void backward(const Site&, MatrixView<const double>) override {}

  std::vector<Matrix<double>> all;
};

Matrix<double> copied(MatrixView<const double> from) {
  Matrix<double> to(from.rows, from.cols);
  residual_add<double>({.x = from}, to);
  return to;
}

/// If a sublayer reads several mixes, it records the first one, that of attention's values.
void Reads::forward(const Site& site, MatrixView<const double> values) {
  if (site.point == Point::kX && site.lane == 0) all.push_back(copied(values));
}

bool has_final_norm(const StackPlan& plan) {
  if (plan.final_norm != FinalNorm::kAsPlacement) return plan.final_norm == FinalNorm::kYes;
  return plan.placements.back().feed_forward.final_norm == Slot::kNorm;
}

/// The learned numbers of a site's mixes, with the names of their parameters.
struct Mix {
  std::string_view name;
  MixUse use;
  std::vector<double> theory::LearnedNumbers::*numbers;
};
constexpr Mix kMixes[] = {{"read.base", MixUse::kRead, &theory::LearnedNumbers::read},
                          {"carry.base", MixUse::kCarry, &theory::LearnedNumbers::carry},
                          {"write.base", MixUse::kWrite, &theory::LearnedNumbers::write}};

/// Transposes an n × n matrix of parameters; other sizes stay unchanged.
void transpose(std::span<double> matrix) {
  std::size_t n = 1;
  while (n * n < matrix.size()) ++n;
  if (n * n != matrix.size()) return;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) std::swap(matrix[i * n + j], matrix[j * n + i]);
  }
}

}  // namespace

Blocks::Blocks(std::size_t count) : count_(count), value_(std::sqrt(static_cast<double>(count))) {}

Matrix<double> Blocks::row(std::size_t block) const {
  Matrix<double> row(1, d_model());
  row(0, 2 * block) = value_;
  row(0, 2 * block + 1) = -value_;
  return row;
}

std::vector<double> Blocks::parts(std::span<const double> sum) const {
  std::vector<double> parts;
  for (std::size_t c = 0; c < sum.size(); c += 2) {
    parts.push_back((sum[c] - sum[c + 1]) / (2 * value_));
  }
  return parts;
}

StackPlan bare_plan(std::vector<BlockPlacement> placements, std::size_t d_model,
                    const SilentBug* bug) {
  StackPlan plan{.block = {.d_model = d_model, .norm = {.epsilon = 1e-12}},
                 .placements = std::move(placements)};
  if (bug != nullptr) bug->put_into(plan);
  return plan;
}

BareStream::BareStream(const StackPlan& plan, const MixDraw& draw_args)
    : carry_use_(plan.carry),
      ends_(plan.placements, plan.block.lanes, plan.block.d_model, plan.block.norm,
            plan.block.affine) {
  AddNormOptions options{.d_model = plan.block.d_model,
                         .norm = plan.block.norm,
                         .affine = plan.block.affine,
                         .depth = {0, plan.placements.size()},
                         .lanes = ends_.lanes()};
  const auto add = [&](const Placement& placement, SublayerKind sublayer) {
    options.sublayer = sublayer;
    options.lanes = add_norms_.emplace_back(placement, options).lanes_after();
  };
  for (const BlockPlacement& block : plan.placements) {
    ++options.depth.layer;
    add(block.attention, SublayerKind::kAttention);
    if (block.attention.sublayers == Sublayers::kParallel) continue;
    add(block.feed_forward, SublayerKind::kFeedForward);
  }
  if (has_final_norm(plan)) {
    final_norm_.emplace(plan.block.norm, plan.block.d_model, plan.block.affine);
  }
  draw(draw_args);
}

void MixDraw::move(std::span<double> numbers, std::size_t site, MixUse mix) const {
  constexpr std::uint64_t kDrawsApart = 1'000'003, kMixesOfASite = 3;
  TorchGenerator generator(seed * kDrawsApart + kMixesOfASite * site +
                           static_cast<std::uint64_t>(mix));
  std::vector<double> deviates(numbers.size());
  generator.fill_normal<double>(deviates, 0, spread);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += deviates[i];
}

void BareStream::draw(const MixDraw& args) {
  const auto draw_site = [&](auto& site) {
    const std::size_t index = learned_.size();
    theory::LearnedNumbers& numbers = learned_.emplace_back();
    ParameterList<double> list;
    if (site) site->list_parameters("", list);
    for (const NamedParameter<double>& entry : list) {
      const auto* mix = std::ranges::find(kMixes, entry.name, &Mix::name);
      if (mix == std::end(kMixes)) continue;
      const std::span<double> values = entry.parameter->value.flat();
      args.move(values, index, mix->use);
      (numbers.*(mix->numbers)).assign(values.begin(), values.end());
      const bool carries = mix->use == MixUse::kCarry;
      if (carry_use_ == CarryUse::kTransposed && carries) transpose(values);
    }
  };
  for (AddNorm<double>& add_norm : add_norms_) draw_site(add_norm.lanes());
  draw_site(ends_.exit());
}

ParameterList<double> BareStream::parameters() {
  ParameterList<double> list;
  ends_.list_entry_parameters("entry_norm", list);
  for (std::size_t l = 0; l < add_norms_.size(); ++l) {
    add_norms_[l].list_parameters("sublayers." + std::to_string(l), list);
  }
  ends_.list_exit_parameters("exit", list);
  return list;
}

/// A pass in evaluation, so there is no dropout.
Pass<double> BareStream::pass(std::size_t rows) {
  return {.length = rows, .mode = Mode::kEvaluation, .scratch = &scratch_};
}

std::vector<Matrix<double>> BareStream::forward(MatrixView<const double> x,
                                                const std::vector<Matrix<double>>& branches) {
  x_ = copied(x);
  Reads reads;
  Pass<double> observed = pass(x.rows);
  observed.probe = &reads;
  ResidualStream<double> stream = ends_.enter(x_, observed);
  for (std::size_t l = 0; l < add_norms_.size(); ++l) {
    GivenSublayer branch(branches.at(l));
    add_norms_[l].forward(stream, branch, observed);
  }
  end_ = copied(ends_.leave(stream, observed));
  Matrix<double>& end = reads.all.emplace_back(end_.rows(), end_.cols());
  if (final_norm_) {
    final_norm_->forward({.x = end_}, {}, end.view(), observed);
  } else {
    residual_add<double>({.x = end_}, end);
  }
  return std::move(reads.all);
}

Matrix<double> BareStream::backward(MatrixView<const double> d_end) {
  const Pass<double> same = pass(d_end.rows);
  Matrix<double> dx = copied(d_end);
  if (final_norm_) final_norm_->backward({.s = end_, .dy = dx, .dx = dx}, same);
  StreamGradient<double> gradient = ends_.leave_backward(dx, same);
  for (std::size_t l = add_norms_.size(); l-- > 0;) {
    GivenSublayer branch;
    add_norms_[l].backward(gradient, branch, same);
  }
  ends_.enter_backward(gradient, dx, same);
  return dx;
}

std::vector<Matrix<double>> BareStream::carry(MatrixView<const double> lanes) {
  LaneList<const double> list;
  for (std::size_t i = 0; i < lanes.rows; ++i) list.push_back(lanes.block(i, 0, 1, lanes.cols));
  ResidualStream<double> stream(std::move(list));
  const Pass<double> one_token = pass(1);
  std::vector<Matrix<double>> behind;
  for (AddNorm<double>& add_norm : add_norms_) {
    GivenSublayer nothing;
    add_norm.forward(stream, nothing, one_token);
    Matrix<double>& rows = behind.emplace_back(stream.lanes().size(), lanes.cols);
    for (std::size_t i = 0; i < rows.rows(); ++i) {
      residual_add<double>({.x = stream.lanes()[i]}, rows.view().block(i, 0, 1, lanes.cols));
    }
  }
  return behind;
}

}  // namespace addnorm::lab
