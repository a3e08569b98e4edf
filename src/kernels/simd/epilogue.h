/// The epilogue of one row: from s and its statistics to all outputs.

#pragma once

#include <span>

#include "addnorm/norm.h"
#include "kernels/feature_vector.h"
#include "kernels/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

/// The epilogue of a call, for a stream whose arithmetic has type V.
template <typename V, typename B>
struct EpilogueRows {
  const NormOptions& options;
  const Gate<B> gate;
  const Modulation<V> modulation;
  const Quantized quantized;
  const MatrixView<B> y;
  const MatrixView<V> unrounded;
  const std::span<NormStatistics<V>> statistics;  ///< written if the gate is before the norm
  const FeatureVector<V>& gamma;
  const FeatureVector<V>& beta;
  const bool has_beta;
  const std::size_t rows_of_sample;
  const bool streams;  ///< whether y has non-temporal stores
};

/// Writes the outputs of row r from its s and the statistics of s. It uses the thread's regions 6
/// and 7.
template <typename V, typename B>
void write_row(const EpilogueRows<V, B>& rows, std::size_t r, const Blocks<V>& s,
               const NormStatistics<V>& statistics);

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
