// Runs stacks in float64 for stack_test.py. It reads a JSON list of cases from standard input, and
// writes a JSON list of results to standard output.
//
// A case has `placement`, `layers`, `lanes` (0: the default), `d_model`, `norm`, `epsilon`, `rows`,
// the values `x` and `dy` of rows × d_model numbers, and `values` by the names of parameters. Its
// result has `y`, `dx`, `gradients`, and the `initial` values of all parameters. The sublayers are
// testing::Turned.

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "addnorm/nn/add_norm.h"
#include "addnorm/nn/stream_ends.h"
#include "support/turned.h"

namespace addnorm {
namespace {

using Json = nlohmann::json;
using Numbers = std::vector<double>;

/// The sum of sublayers that run in parallel.
class Sum final : public Sublayer<double> {
 public:
  void add(std::size_t site) { terms_.emplace_back(site); }

  void forward(MatrixView<const double> x, MatrixView<double> y,
               const Pass<double>& pass) override {
    terms_.front().forward(x, y, pass);
    each_other(y, [&](testing::Turned& term, MatrixView<double> to) { term.forward(x, to, pass); });
  }
  void backward(MatrixView<const double> x, MatrixView<const double> dy, MatrixView<double> dx,
                const Pass<double>& pass) override {
    terms_.front().backward(x, dy, dx, pass);
    each_other(
        dx, [&](testing::Turned& term, MatrixView<double> to) { term.backward(x, dy, to, pass); });
  }

 private:
  template <typename Body>
  void each_other(MatrixView<double> sum, const Body& body) {
    for (std::size_t i = 1; i < terms_.size(); ++i) {
      Matrix<double> term(sum.rows, sum.cols);
      body(terms_[i], term.view());
      residual_add<double>({.x = sum, .branch = term}, sum);
    }
  }
  std::deque<testing::Turned> terms_;
};

class Case {
 public:
  explicit Case(const Json& given) : given_(given) {
    ends_.list_entry_parameters("entry_norm", parameters_);
    std::size_t sublayer = 0;
    for_each_add_norm(blocks_, ends_.lanes(), layers_, [&](const Placement& p, const Place& place) {
      const bool attention = place.sublayer == SublayerKind::kAttention;
      AddNorm<double>& site = sites_.emplace_back(p, AddNormOptions{.d_model = d_model_,
                                                                    .norm = norm_,
                                                                    .affine = affine_,
                                                                    .depth = place.depth,
                                                                    .sublayer = place.sublayer,
                                                                    .lanes = place.lanes});
      site.list_parameters("layers." + std::to_string(place.depth.layer - 1) +
                               (attention ? ".attention_add_norm" : ".feed_forward_add_norm"),
                           parameters_);
      Sum& branch = branches_.emplace_back();
      branch.add(sublayer++);
      if (p.sublayers == Sublayers::kParallel) branch.add(sublayer++);
    });
    ends_.list_exit_parameters("exit", parameters_);
    if (blocks_.back().feed_forward.final_norm != Slot::kNothing) {
      final_norm_.emplace(norm_, d_model_, affine_);
      final_norm_->list_parameters("final_norm", parameters_);
    }
    for (const auto& [name, parameter] : parameters_) {
      initial_[name] = listed(parameter->value.flat());
    }
  }

  Json run() {
    for (const auto& [name, parameter] : parameters_) {
      fill(given_.at("values").at(name), parameter->value.flat());
    }
    zero_gradients(parameters_);
    fill(given_.at("x"), x_.flat());
    fill(given_.at("dy"), d_.flat());
    forward();
    backward();
    Json gradients = Json::object();
    for (const auto& [name, parameter] : parameters_) {
      gradients[name] = listed(parameter->gradient.flat());
    }
    return {{"y", listed(y_.flat())},
            {"dx", listed(d_.flat())},
            {"gradients", gradients},
            {"initial", initial_}};
  }

 private:
  std::size_t size(const char* name) const { return given_.at(name).get<std::size_t>(); }
  static Numbers listed(std::span<const double> values) { return {values.begin(), values.end()}; }
  static void fill(const Json& from, std::span<double> to) {
    const auto values = from.get<Numbers>();
    if (values.size() != to.size()) throw std::runtime_error("wrong number of values");
    std::ranges::copy(values, to.begin());
  }

  void forward() {
    ResidualStream<double> stream = ends_.enter(x_, pass_);
    for (std::size_t s = 0; s < sites_.size(); ++s) sites_[s].forward(stream, branches_[s], pass_);
    if (ends_.has_lanes()) stream = ResidualStream<double>(ends_.leave(stream, pass_));
    last_ = stream.value();
    if (final_norm_) {
      stream.normalize(*final_norm_, y_.view(), pass_);
    } else {
      residual_add<double>({.x = last_}, y_);
    }
  }
  void backward() {
    if (final_norm_) final_norm_->backward({.s = last_, .dy = d_, .dx = d_}, pass_);
    StreamGradient<double> gradient = ends_.leave_backward(d_, pass_);
    for (std::size_t s = sites_.size(); s-- > 0;) {
      sites_[s].backward(gradient, branches_[s], pass_);
    }
    ends_.enter_backward(gradient, d_, pass_);
  }

  const Json& given_;
  std::size_t rows_ = size("rows"), d_model_ = size("d_model"), layers_ = size("layers");
  std::vector<BlockPlacement> blocks_ =
      parse_placements(given_.at("placement").get<std::string>(), layers_);
  bool is_rms_ = given_.at("norm") == "rms";
  NormOptions norm_{.kind = is_rms_ ? NormKind::kRms : NormKind::kLayer,
                    .epsilon = given_.at("epsilon").get<double>()};
  Affine affine_ = is_rms_ ? Affine::kGamma : Affine::kGammaBeta;
  StreamEnds<double> ends_{blocks_, size("lanes"), d_model_, norm_, affine_};
  std::deque<AddNorm<double>> sites_;
  std::deque<Sum> branches_;
  std::optional<Norm<double>> final_norm_;
  ParameterList<double> parameters_;
  Json initial_ = Json::object();

  Scratch<double> scratch_;
  Pass<double> pass_{.length = rows_, .mode = Mode::kEvaluation, .scratch = &scratch_};
  MatrixView<const double> last_;
  Matrix<double> x_{rows_, d_model_}, y_{rows_, d_model_}, d_{rows_, d_model_};
};

}  // namespace
}  // namespace addnorm

int main() {
  const auto cases = nlohmann::json::parse(std::cin);
  auto results = nlohmann::json::array();
  for (const auto& one : cases) results.push_back(addnorm::Case(one).run());
  std::cout << results << '\n';
}
