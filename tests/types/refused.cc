// Each case uses a public template with unsupported types. It must not compile, and the message
// must list the supported types. Without a case everything compiles.

#include "addnorm/cuda.h"
#include "addnorm/lanes.h"
#include "addnorm/layer_norm.h"
#include "addnorm/nn/decoder.h"
#include "addnorm/norm.h"
#include "addnorm/torch_generator.h"
#include "addnorm/train/adamw.h"
#include "addnorm/train/cross_entropy.h"

using namespace addnorm;

void use() {
#if defined(REFUSED_add_norm_forward)
  add_norm_forward<BFloat16, float>({}, {});
#elif defined(REFUSED_add_norm_backward)
  add_norm_backward<float, double>({}, {});
#elif defined(REFUSED_residual_add)
  residual_add<int>({}, {});
#elif defined(REFUSED_residual_add_backward)
  residual_add_backward<Float16, BFloat16>({});
#elif defined(REFUSED_lanes_forward)
  lanes_forward<double, float>({});
#elif defined(REFUSED_lanes_backward)
  lanes_backward<Float16, float>({});
#elif defined(REFUSED_layer_norm)
  layer_norm<long double>({}, {}, {}, {});
#elif defined(REFUSED_rms_norm_backward)
  rms_norm_backward<short>({}, {}, {}, {}, {});
#elif defined(REFUSED_running_statistics)
  update_running_statistics<BFloat16>({}, 2, {}, {});
#elif defined(REFUSED_cuda_add_norm_forward)
  cuda::add_norm_forward<double>({}, {});
#elif defined(REFUSED_cuda_lanes_backward)
  cuda::lanes_backward<double>({});
#elif defined(REFUSED_linear)
  Linear<Float16>(1, 1, Bias::kNo);
#elif defined(REFUSED_linear_output)
  Linear<float>(1, 1, Bias::kNo).forward({}, MatrixView<double>());
#elif defined(REFUSED_norm)
  Norm<float, float, BFloat16>({}, 1, Affine::kNone);
#elif defined(REFUSED_decoder)
  Decoder<int> decoder({});
#elif defined(REFUSED_adamw)
  AdamW<BFloat16>({}, {});
#elif defined(REFUSED_cross_entropy)
  cross_entropy<BFloat16>({}, {}, {});
#elif defined(REFUSED_fill_normal)
  TorchGenerator(1).fill_normal(std::span<BFloat16>());
#else
  add_norm_forward<float, BFloat16>({}, {});
  layer_norm<Float16>({}, {}, {}, {});
  cuda::lanes_backward<float>({});
  Linear<BFloat16>(1, 1, Bias::kNo).forward({}, MatrixView<float>());
  Norm<BFloat16, float, BFloat16>({}, 1, Affine::kNone);
  cross_entropy<double>({}, {}, {});
  TorchGenerator(1).fill_normal(std::span<double>());
#endif
}
