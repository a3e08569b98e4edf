/// The C interface to the GPU's kernels has the same bits as the C++ functions, and its calls can
/// be captured in a CUDA graph.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "addnorm/cuda.h"
#include "addnorm_cuda.h"
#include "support/device.h"
#include "support/random.h"

namespace addnorm::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::random_vector;
using ::testing::StrEq;

constexpr std::size_t kRows = 33, kFeatures = 296;

/// The arguments of both interfaces, in float, and memory for one interface's outputs.
struct CInterfaceCase {
  DeviceArray<float> x, branch, gamma, beta, dy;
  DeviceArray<float> sum{kRows * kFeatures}, y{kRows * kFeatures}, dx{kRows * kFeatures};
  DeviceArray<float> d_gamma{kFeatures}, d_beta{kFeatures};
  DeviceArray<NormStatistics<float>> statistics{kRows};
  DeviceArray<float> workspace{addnorm::cuda::add_norm_workspace(kRows, kFeatures)};
  float gain = 0.5F;

  explicit CInterfaceCase(TorchGenerator generator = TorchGenerator(7))
      : x(random_vector<float>(generator, kRows * kFeatures)),
        branch(random_vector<float>(generator, kRows * kFeatures)),
        gamma(random_vector<float>(generator, kFeatures)),
        beta(random_vector<float>(generator, kFeatures)),
        dy(random_vector<float>(generator, kRows * kFeatures)) {}

  void call_cpp() {
    addnorm::cuda::add_norm_forward<float>({}, {.add = {.x = x.matrix(kRows, kFeatures),
                                                        .branch = branch.matrix(kRows, kFeatures),
                                                        .gain = {.constant = gain}},
                                                .sum = sum.matrix(kRows, kFeatures),
                                                .gamma = gamma.span(),
                                                .beta = beta.span(),
                                                .y = y.matrix(kRows, kFeatures),
                                                .statistics = statistics.span()});
    addnorm::cuda::add_norm_backward<float>({}, {.s = sum.matrix(kRows, kFeatures),
                                                 .statistics = statistics.span(),
                                                 .gamma = gamma.span(),
                                                 .dy = dy.matrix(kRows, kFeatures),
                                                 .dx = dx.matrix(kRows, kFeatures),
                                                 .d_gamma = d_gamma.span(),
                                                 .d_beta = d_beta.span(),
                                                 .workspace = workspace.span(),
                                                 .parameter_gradients = GradientMode::kOverwrite});
  }

  void call_c(void* stream) {
    addnorm_add_norm_forward_args forward{};
    forward.size = sizeof forward;
    forward.rows = kRows;
    forward.features = kFeatures;
    forward.add.x = x.data();
    forward.add.branch = branch.data();
    forward.add.gain = &gain;
    forward.add.gain_count = 1;
    forward.sum = sum.data();
    forward.gamma = gamma.data();
    forward.beta = beta.data();
    forward.y = y.data();
    forward.statistics = statistics.data();
    ASSERT_EQ(addnorm_cuda_add_norm_forward(&forward, stream), ADDNORM_OK)
        << addnorm_cuda_last_error();
    addnorm_add_norm_backward_args backward{};
    backward.size = sizeof backward;
    backward.parameter_gradients = ADDNORM_GRADIENT_OVERWRITE;
    backward.rows = kRows;
    backward.features = kFeatures;
    backward.s = sum.data();
    backward.statistics = statistics.data();
    backward.gamma = gamma.data();
    backward.dy = dy.data();
    backward.dx = dx.data();
    backward.d_gamma = d_gamma.data();
    backward.d_beta = d_beta.data();
    backward.workspace = workspace.data();
    backward.workspace_size = workspace.size();
    ASSERT_EQ(addnorm_cuda_add_norm_backward(&backward, stream), ADDNORM_OK)
        << addnorm_cuda_last_error();
  }

  std::vector<std::vector<float>> outputs() const {
    return {sum.values(), y.values(), dx.values(), d_gamma.values(), d_beta.values()};
  }
};

TEST(CudaCInterface, HasTheSameBits) {
  CInterfaceCase cpp, c;
  cpp.call_cpp();
  c.call_c(nullptr);
  EXPECT_EQ(cpp.outputs(), c.outputs());
}

TEST(CudaCInterface, CanBeCaptured) {
  CInterfaceCase direct, captured;
  direct.call_c(nullptr);
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  check(cudaStreamCreate(&stream));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  captured.call_c(stream);
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&executable, graph, 0));
  check(cudaGraphLaunch(executable, stream));
  check(cudaStreamSynchronize(stream));
  EXPECT_EQ(direct.outputs(), captured.outputs());
  check(cudaGraphExecDestroy(executable));
  check(cudaGraphDestroy(graph));
  check(cudaStreamDestroy(stream));
}

TEST(CudaCInterface, MixesLanesLikeCpp) {
  constexpr std::size_t kLanes = 2;
  TorchGenerator generator(8);
  const DeviceArray<float> x(random_vector<float>(generator, kRows * kLanes * kFeatures));
  const DeviceArray<float> carry(random_vector<float>(generator, kLanes * kLanes));
  const DeviceArray<float> read(random_vector<float>(generator, kLanes));
  const DeviceArray<float> sum_c(x.size()), sum_cpp(x.size());
  const DeviceArray<float> y_c(kRows * kFeatures), y_cpp(kRows * kFeatures);
  const auto lanes_of = [](float* data, std::size_t lanes) {
    return LanesView<float>{data, kRows, lanes, kFeatures, lanes * kFeatures, kFeatures};
  };
  const auto x_view = lanes_of(x.data(), kLanes);
  addnorm::cuda::lanes_forward<float>(
      {.x = {x_view.data, kRows, kLanes, kFeatures, kLanes * kFeatures, kFeatures},
       .carry = {carry.data(), 1, kLanes * kLanes},
       .sum = lanes_of(sum_cpp.data(), kLanes),
       .read = {read.data(), 1, kLanes},
       .y = lanes_of(y_cpp.data(), 1)});
  addnorm_lanes_forward_args args{};
  args.size = sizeof args;
  args.rows = kRows;
  args.features = kFeatures;
  args.mix.lanes = kLanes;
  args.mix.x = x.data();
  args.mix.carry = carry.data();
  args.mix.read = read.data();
  args.sum = sum_c.data();
  args.y = y_c.data();
  ASSERT_EQ(addnorm_cuda_lanes_forward(&args, nullptr), ADDNORM_OK) << addnorm_cuda_last_error();
  EXPECT_EQ(sum_c.values(), sum_cpp.values());
  EXPECT_EQ(y_c.values(), y_cpp.values());
}

TEST(CudaCInterface, SaysWhatADeviceSupports) {
  EXPECT_EQ(addnorm_cuda_supports(0, 4096, 0), ADDNORM_OK) << addnorm_cuda_last_error();
  EXPECT_EQ(addnorm_cuda_supports(0, 4096, 4), ADDNORM_OK) << addnorm_cuda_last_error();
  EXPECT_EQ(addnorm_cuda_supports(0, 65537, 0), ADDNORM_INVALID_ARGUMENT);
  EXPECT_THAT(addnorm_cuda_last_error(),
              StrEq("cuda::check_support: there are 65537 features, must be at most 65536"));
  EXPECT_EQ(addnorm_cuda_supports(-1, 64, 0), ADDNORM_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace addnorm::kernels::cuda
