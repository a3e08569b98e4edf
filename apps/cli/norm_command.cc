#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "addnorm/norm.h"
#include "base/require.h"
#include "cli/command.h"
#include "cli/options.h"
#include "io/file.h"
#include "io/npy.h"
#include "kernels/check.h"

namespace addnorm::cli {
namespace {

constexpr const char* kNormMeaning =
    R"(The arrays are .npy files of float32 or of float64, all of one type, in C order. Layer and rms
normalize the last axis; batch, instance and group take PyTorch's order (N, C, …). gamma and beta
have one value for each feature or channel. What is normalized is input + residual, and the
gradients are those with respect to it. The outputs are written all or not at all.

Examples:
  addnorm norm --input x.npy --output y.npy --kind rms --gamma g.npy
  addnorm norm --input x.npy --residual f.npy --sum s.npy --output y.npy
  addnorm norm --input x.npy --output y.npy --grad-output dy.npy --grad-input dx.npy)";

struct NormFlags {
  std::string input, output, residual, sum, gamma, beta;
  std::string grad_output, grad_input, grad_gamma, grad_beta;
  NormOptions norm{.groups = 0};  // not given
  bool unit_offset = false;
};

/// The sizes of the normalized values: rows of features are samples of channels with one position.
struct Sizes {
  std::size_t samples = 1, channels = 1, positions = 1;

  /// Returns the number of values that share one mean and one deviation.
  std::size_t set(const NormOptions& norm) const {
    switch (norm.kind) {
      case NormKind::kBatch:
        return samples * positions;
      case NormKind::kInstance:
        return positions;
      case NormKind::kGroup:
        return channels / norm.groups * positions;
      default:
        return channels;
    }
  }
};

Sizes sizes_of(const io::Shape& shape, const NormFlags& flags) {
  const bool of_rows = normalizes_rows(flags.norm.kind);
  require(shape.size() >= (of_rows ? 1 : 2), "{}: has shape {}; expected {}", flags.input,
          io::shape_text(shape), of_rows ? "at least one axis, features last" : "(N, C, …)");
  const auto channel = of_rows ? shape.end() - 1 : shape.begin() + 1;
  const auto product = [](auto begin, auto end) {
    return std::accumulate(begin, end, std::size_t{1}, std::multiplies<>());
  };
  const Sizes sizes{product(shape.begin(), channel), *channel, product(channel + 1, shape.end())};
  require(sizes.channels > 0, "{}: has shape {}; expected at least one feature", flags.input,
          io::shape_text(shape));
  require(flags.norm.kind != NormKind::kGroup || sizes.channels % flags.norm.groups == 0,
          "--groups: is {}; expected a divisor of the {} channels of {}", flags.norm.groups,
          sizes.channels, flags.input);
  kernels::check_norm_options(flags.input, flags.norm, sizes.set(flags.norm));
  return sizes;
}

/// Returns the values in `file`, which must be of type T and have this shape; none without a file.
template <typename T>
std::vector<T> read_values(const std::string& file, const io::Shape& shape,
                           const std::string& input) {
  if (file.empty()) return {};
  io::NpyArray array = io::read_npy(file);
  auto* values = std::get_if<std::vector<T>>(&array.values);
  constexpr bool kIsFloat = sizeof(T) == sizeof(float);
  require(values != nullptr, "{}: is float{}; expected float{} as in {}", file, kIsFloat ? 64 : 32,
          kIsFloat ? 32 : 64, input);
  require(array.shape == shape, "{}: has shape {}; expected {} to go with {}", file,
          io::shape_text(array.shape), io::shape_text(shape), input);
  return std::move(*values);
}

template <typename T>
std::vector<io::OutputFile> normalize(const NormFlags& flags, const io::Shape& shape,
                                      std::vector<T> x) {
  const Sizes sizes = sizes_of(shape, flags);
  const io::Shape per_channel{sizes.channels};
  const auto read = [&](const std::string& file, const io::Shape& expected) {
    return read_values<T>(file, expected, flags.input);
  };
  const auto space = [](const std::string& file, std::size_t size) {
    return std::vector<T>(file.empty() ? 0 : size);
  };
  const std::size_t size = x.size();
  std::vector<T> residual = read(flags.residual, shape);
  std::vector<T> gamma = read(flags.gamma, per_channel);
  std::vector<T> beta = read(flags.beta, per_channel);
  std::vector<T> y(size);
  std::vector<T> dy = read(flags.grad_output, shape);
  std::vector<T> dx = space(flags.grad_input, size);
  std::vector<T> d_gamma = space(flags.grad_gamma, sizes.channels);
  std::vector<T> d_beta = space(flags.grad_beta, sizes.channels);
  const std::size_t features = sizes.channels * sizes.positions;
  std::vector<NormStatistics<T>> statistics(
      norm_sets(flags.norm, sizes.samples, features, sizes.positions));
  std::vector<T> workspace(norm_workspace(flags.norm, sizes.samples, features, sizes.positions));
  const auto rows = [&](std::vector<T>& values) {
    return values.empty() && size > 0 ? MatrixView<T>()
                                      : MatrixView<T>(values.data(), sizes.samples, features);
  };
  add_norm_forward<T>(flags.norm, {.add = {.x = rows(x), .branch = rows(residual)},
                                   .sum = rows(residual),
                                   .gamma = gamma,
                                   .beta = beta,
                                   .y = rows(y),
                                   .statistics = statistics,
                                   .positions = sizes.positions,
                                   .workspace = workspace});
  std::vector<T>& s = flags.residual.empty() ? x : residual;
  if (!flags.grad_input.empty()) {
    add_norm_backward<T>(flags.norm, {.s = rows(s),
                                      .statistics = statistics,
                                      .gamma = gamma,
                                      .dy = rows(dy),
                                      .dx = rows(dx),
                                      .d_gamma = d_gamma,
                                      .d_beta = d_beta,
                                      .workspace = workspace,
                                      .positions = sizes.positions});
  }

  std::vector<io::OutputFile> files;
  const auto put = [&](const std::string& file, const io::Shape& array,
                       const std::vector<T>& values) {
    if (!file.empty()) files.push_back({file, io::to_npy(array, values)});
  };
  put(flags.output, shape, y);
  put(flags.sum, shape, s);
  put(flags.grad_input, shape, dx);
  put(flags.grad_gamma, per_channel, d_gamma);
  put(flags.grad_beta, per_channel, d_beta);
  return files;
}

ExitStatus run(NormFlags flags) {
  if (flags.unit_offset) flags.norm.gamma_form = GammaForm::kOnePlus;
  require((flags.norm.kind == NormKind::kGroup) == (flags.norm.groups > 0),
          "--groups: is {}; expected at least 1 for --kind group, and no --groups for other kinds",
          flags.norm.groups);
  io::NpyArray input = io::read_npy(flags.input);
  io::write_files(
      std::visit([&](auto& values) { return normalize(flags, input.shape, std::move(values)); },
                 input.values));
  return kDone;
}

}  // namespace

Command norm_command(CLI::App& program) {
  const auto flags = std::make_shared<NormFlags>();
  CLI::App* app = program.add_subcommand("norm", "Normalize an array, and its gradients");
  add_file(*app, "--input", flags->input, "the array")->required();
  add_file(*app, "--output", flags->output, "file for the normalized array")->required();
  add_choice(*app, "--kind", flags->norm.kind, "which values share a mean (default layer)",
             kNormsWithStatistics);
  add_count(*app, "--groups", flags->norm.groups, "number of groups of channels, for --kind group");
  CLI::Option* residual =
      add_file(*app, "--residual", flags->residual, "file with an array to add to the input");
  add_file(*app, "--sum", flags->sum, "file for input + residual")->needs(residual);
  add_file(*app, "--gamma", flags->gamma, "γ (default 1)");
  add_file(*app, "--beta", flags->beta, "β (default 0)");
  add_norm_options(*app, flags->norm);
  add_switch(*app, "--unit-offset", flags->unit_offset, "γ stands for 1 + γ, as Gemma stores it");
  CLI::Option* dy = add_file(*app, "--grad-output", flags->grad_output, "gradient of the output");
  CLI::Option* dx = add_file(*app, "--grad-input", flags->grad_input,
                             "file for the gradient of the normalized input");
  dx->needs(dy);
  dy->needs(dx);
  add_file(*app, "--grad-gamma", flags->grad_gamma, "file for the gradient of γ")->needs(dx);
  add_file(*app, "--grad-beta", flags->grad_beta, "file for the gradient of β")->needs(dx);
  app->footer(kNormMeaning);
  return {app, [flags] { return run(*flags); }};
}

}  // namespace addnorm::cli
