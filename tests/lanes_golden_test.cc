// Compares placements with other implementations: golden/generate_lanes.py.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "addnorm/nn/add_norm.h"
#include "addnorm/nn/stream_ends.h"
#include "support/compare.h"
#include "support/turned.h"

namespace addnorm::lanes_golden_test {
namespace {

using Json = nlohmann::json;
using Numbers = std::vector<double>;

/// The tolerance of max |a − b| ÷ max |b|, in float64 through up to 18 sublayers. The files have 13
/// digits; nGPT's unit norm has no ε, ours 1e-12.
constexpr double kTolerance = 1e-10;

/// A stack of sublayers testing::Turned, with Stack's names of parameters.
class Case {
 public:
  explicit Case(const std::filesystem::path& file)
      : name_(file.stem()), golden_(Json::parse(std::ifstream(file))) {
    for (std::size_t layer = 1; layer <= layers_; ++layer) {
      add(layer, SublayerKind::kAttention, ".attention_add_norm");
      add(layer, SublayerKind::kFeedForward, ".feed_forward_add_norm");
    }
    ends_.list_entry_parameters("entry_norm", parameters_);
    ends_.list_exit_parameters("exit", parameters_);
    if (placement_.final_norm != Slot::kNothing) {
      final_norm_.emplace(norm_, d_model_, affine_);
      final_norm_->list_parameters("final_norm", parameters_);
    }
  }

  void check() {
    SCOPED_TRACE(name_);
    check_initial_values();
    load();
    forward();
    backward();
    compare("y", golden_.at("y"), y_.flat());
    for (const auto& [name, parameter] : parameters_) {
      if (golden_.at("values").contains(name)) {
        compare(name, golden_.at("gradients").at(name), parameter->gradient.flat());
      }
    }
    fmt::print("{}: worst error {:.1e}, of {}\n", name_, worst_error_, worst_);
  }

 private:
  std::size_t size(const char* name) const { return golden_.at(name).get<std::size_t>(); }

  void add(std::size_t layer, SublayerKind sublayer, const char* name) {
    AddNorm<double>& site =
        sites_.emplace_back(placement_, AddNormOptions{.d_model = d_model_,
                                                       .norm = norm_,
                                                       .affine = affine_,
                                                       .depth = {layer, layers_},
                                                       .sublayer = sublayer,
                                                       .lanes = lanes_});
    branches_.emplace_back(branches_.size());
    site.list_parameters("layers." + std::to_string(layer - 1) + name, parameters_);
    lanes_ = site.lanes_after();
  }

  void check_initial_values() {
    std::set<std::string> left;
    for (const auto& [name, values] : golden_.at("initial").items()) left.insert(name);
    for (const auto& [name, parameter] : parameters_) {
      if (left.erase(name) == 0) continue;
      // Some implementations store them in float32.
      EXPECT_LE(testing::max_error(parameter->value.flat(),
                                   golden_.at("initial").at(name).get<Numbers>()),
                1e-7)
          << name << " at the start";
    }
    EXPECT_TRUE(left.empty()) << *left.begin() << " is no parameter";
  }

  void load() {
    std::size_t used = 0;
    for (const auto& [name, parameter] : parameters_) {
      if (!golden_.at("values").contains(name)) {
        ADD_FAILURE() << name << " has no value";
        continue;
      }
      fill(parameter->value.flat(), golden_.at("values").at(name));
      ++used;
    }
    EXPECT_EQ(used, golden_.at("values").size()) << "values without a parameter";
    zero_gradients(parameters_);
  }
  static void fill(std::span<double> to, const Json& from) {
    const auto values = from.get<Numbers>();
    ASSERT_EQ(values.size(), to.size());
    std::ranges::copy(values, to.begin());
  }

  static Numbers numbers(MatrixView<const double> matrix) {
    Numbers all;
    for (std::size_t r = 0; r < matrix.rows; ++r) {
      all.insert(all.end(), matrix.row(r).begin(), matrix.row(r).end());
    }
    return all;
  }

  /// Whether the data has only the lane that enters the stream, not all initial lanes.
  bool enters() const { return golden_.at("x").size() == 1; }

  void forward() {
    for (const Json& lane : golden_.at("x")) {
      x_.emplace_back(rows_, d_model_);
      fill(x_.back().flat(), lane);
    }
    ResidualStream<double> stream =
        enters() ? ends_.enter(x_.front(), pass_)
                 : ResidualStream<double>(LaneList<const double>(x_.begin(), x_.end()));
    for (std::size_t s = 0; s < sites_.size(); ++s) sites_[s].forward(stream, branches_[s], pass_);
    if (ends_.has_lanes()) stream = ResidualStream<double>(ends_.leave(stream, pass_));
    last_ = stream.value();
    if (final_norm_) {
      stream.normalize(*final_norm_, y_.view(), pass_);
    } else {
      std::ranges::copy(numbers(last_), y_.data());
    }
  }

  void backward() {
    fill(gradient_.flat(), golden_.at("dy"));
    if (final_norm_) {
      final_norm_->backward({.s = last_, .dy = gradient_, .dx = gradient_}, pass_);
    }
    StreamGradient<double> gradient = ends_.leave_backward(gradient_, pass_);
    for (std::size_t s = sites_.size(); s-- > 0;) {
      sites_[s].backward(gradient, branches_[s], pass_);
    }
    if (enters()) {
      ends_.enter_backward(gradient, gradient_, pass_);
      gradient.lanes = {gradient_.view()};
    }
    for (std::size_t i = 0; i < x_.size(); ++i) {
      const auto expected = golden_.at("dx").at(i).get<Numbers>();
      for (std::size_t r = 0; r < rows_; ++r) {
        const std::span<const double> row = std::span(expected).subspan(r * d_model_, d_model_);
        compare_numbers(fmt::format("x, row {}", r), row, gradient.lanes[i].row(r));
      }
    }
  }

  void compare(const std::string& what, const Json& expected, std::span<const double> actual) {
    compare_numbers(what, expected.get<Numbers>(), actual);
  }
  void compare_numbers(const std::string& what, std::span<const double> expected,
                       std::span<const double> actual) {
    const double error = testing::relative_error(actual, expected);
    EXPECT_LE(error, kTolerance) << what;
    if (error >= worst_error_) {
      worst_error_ = error;
      worst_ = what;
    }
  }

  std::string name_;
  Json golden_;
  std::size_t rows_ = size("rows"), d_model_ = size("d_model"), layers_ = size("layers");
  bool is_rms_ = golden_.at("norm") == "rms";
  NormOptions norm_{.kind = is_rms_ ? NormKind::kRms : NormKind::kLayer, .epsilon = 1e-6};
  Affine affine_ = is_rms_ ? Affine::kGamma : Affine::kGammaBeta;
  Placement placement_ = find_placement(golden_.at("placement").get<std::string>());
  StreamEnds<double> ends_{{layers_, {placement_, placement_}},
                           size("lanes") > 1 ? size("lanes") : 0,
                           d_model_,
                           norm_,
                           affine_};
  std::size_t lanes_ = ends_.lanes();  // before the next added sublayer
  std::deque<AddNorm<double>> sites_;
  std::deque<testing::Turned> branches_;
  std::optional<Norm<double>> final_norm_;
  ParameterList<double> parameters_;

  Scratch<double> scratch_;
  Pass<double> pass_{.length = rows_, .scratch = &scratch_};
  std::vector<Matrix<double>> x_;
  MatrixView<const double> last_;
  Matrix<double> y_{rows_, d_model_}, gradient_{rows_, d_model_};
  double worst_error_ = 0;
  std::string worst_;
};

TEST(LanesGolden, PlacementsEqualOtherImplementationsOfThem) {
  const std::filesystem::path folder = ADDNORM_SOURCE_DIR "/tests/golden/lanes";
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.insert(entry.path());
  EXPECT_FALSE(files.empty());
  for (const auto& file : files) Case(file).check();
}

}  // namespace
}  // namespace addnorm::lanes_golden_test
