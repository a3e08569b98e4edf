#include <cmath>
#include <utility>

#include "kernels/reference.h"

namespace addnorm::kernels::reference {
namespace {

double gate(const Epilogue& e, double z) {
  const double sigmoid = 1 / (1 + std::exp(-z));
  return e.function == GateFunction::kIdentity ? z
         : e.function == GateFunction::kSilu   ? z * sigmoid
                                               : sigmoid;
}
double gate_slope(const Epilogue& e, double z) {
  const double sigmoid = 1 / (1 + std::exp(-z));
  const double slope = sigmoid * (1 - sigmoid);
  return e.function == GateFunction::kIdentity ? 1
         : e.function == GateFunction::kSilu   ? sigmoid + z * slope
                                               : slope;
}
/// Returns values ⊙ act(z), if there is a gate at this place.
Values gated(const Epilogue& e, GatePlace place, Values values) {
  if (e.z.empty() || e.place != place) return values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= gate(e, e.z[i]);
  return values;
}
/// The index of the number of a modulation for value i.
std::size_t of_sample(const Epilogue& e, std::size_t i) {
  const std::size_t cols = e.norm.shape.channels;
  return i / cols / (e.norm.shape.samples / e.samples) * cols + i % cols;
}

}  // namespace

Values epilogue_forward(const Epilogue& e) {
  Norm norm = e.norm;
  norm.x = gated(e, GatePlace::kBeforeNorm, norm.x);
  Values y = gated(e, GatePlace::kAfterNorm, norm_forward(norm).y);
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (!e.scale.empty()) y[i] *= 1 + e.scale[of_sample(e, i)];
    if (!e.shift.empty()) y[i] += e.shift[of_sample(e, i)];
  }
  return y;
}

EpilogueGradients epilogue_backward(const Epilogue& e, const Values& dy) {
  const std::size_t size = dy.size(), of_samples = e.samples * e.norm.shape.channels;
  Norm norm = e.norm;
  norm.x = gated(e, GatePlace::kBeforeNorm, norm.x);
  const Values normed = norm_forward(norm).y;
  const Values modulated = gated(e, GatePlace::kAfterNorm, normed);
  EpilogueGradients grad;
  grad.d_scale = grad.d_shift = Values(of_samples);
  grad.dz = Values(e.z.size());
  Values d_normed = dy;
  for (std::size_t i = 0; i < size; ++i) {
    grad.d_shift[of_sample(e, i)] += dy[i];
    grad.d_scale[of_sample(e, i)] += dy[i] * modulated[i];
    if (!e.scale.empty()) d_normed[i] *= 1 + e.scale[of_sample(e, i)];
    if (e.z.empty() || e.place == GatePlace::kBeforeNorm) continue;
    grad.dz[i] = d_normed[i] * normed[i] * gate_slope(e, e.z[i]);
    d_normed[i] *= gate(e, e.z[i]);
  }
  NormGradients of_norm = norm_backward(norm, d_normed);
  for (std::size_t i = 0; i < size && e.place == GatePlace::kBeforeNorm; ++i) {
    if (e.z.empty()) break;
    grad.dz[i] = of_norm.dx[i] * e.norm.x[i] * gate_slope(e, e.z[i]);
    of_norm.dx[i] *= gate(e, e.z[i]);
  }
  grad.ds = std::move(of_norm.dx);
  grad.d_gamma = std::move(of_norm.d_gamma);
  grad.d_beta = std::move(of_norm.d_beta);
  return grad;
}

}  // namespace addnorm::kernels::reference
