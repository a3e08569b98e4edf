#include "kernels/epilogue.h"

#include <bit>

namespace addnorm::kernels {
namespace {

constexpr std::size_t kLeastBlock = 32, kMostBlock = 1024;

/// Throws unless the scales of int8 or float8 fit.
void check_scales(std::string_view where, const Quantized& q, std::size_t rows, std::size_t cols) {
  if (q.given_scale != 0) {
    require(std::isfinite(q.given_scale) && q.given_scale > 0 && std::isfinite(1 / q.given_scale),
            "{}: epilogue.quantized.given_scale is {}, must be positive and finite, and so must "
            "1/scale",
            where, q.given_scale);
    require(q.block == 0, "{}: epilogue.quantized.block is {}, must be 0 with a given scale", where,
            q.block);
    require(q.scales.empty(), "{}: epilogue.quantized.scales must be absent with a given scale",
            where);
    return;
  }
  if (q.block != 0) {
    require(std::has_single_bit(q.block) && q.block >= kLeastBlock && q.block <= kMostBlock,
            "{}: epilogue.quantized.block is {}, must be 0, 32, 64, 128, 256, 512 or 1024", where,
            q.block);
    require(cols % q.block == 0, "{}: epilogue.quantized.block is {}, must divide the {} features",
            where, q.block, cols);
  }
  check_shape(where, "epilogue.quantized.scales", q.scales, rows,
              q.block == 0 ? 1 : cols / q.block);
}

}  // namespace

void check_has_epilogues(std::string_view where, const NormOptions& options) {
  require(kHasEpilogues, "{}: there is an epilogue, which WebAssembly does not have", where);
  require(normalizes_rows(options.kind),
          "{}: there is an epilogue, which is for layer and rms, "
          "but the norm is {}",
          where, to_string(options.kind));
}

void check_quantized(std::string_view where, const Quantized& q, std::size_t rows,
                     std::size_t cols) {
  check_optional_shape(where, "epilogue.quantized.int8", q.int8, rows, cols);
  check_optional_shape(where, "epilogue.quantized.float8", q.float8, rows, cols);
  const int outputs = !q.int8.empty() + !q.float8.empty() + !q.q8_0.empty();
  require(outputs < 2, "{}: epilogue.quantized has {} of int8, float8 and q8_0, must have one",
          where, outputs);
  if (!q.q8_0.empty()) {
    require(cols % Q8Block::kValues == 0,
            "{}: q8_0 has blocks of 32, which must divide the {} "
            "features",
            where, cols);
    check_shape(where, "epilogue.quantized.q8_0", q.q8_0, rows, cols / Q8Block::kValues);
    require(q.given_scale == 0 && q.scales.empty(),
            "{}: epilogue.quantized has scales, but q8_0 contains its own", where);
  } else if (!q.empty()) {
    check_scales(where, q, rows, cols);
  } else {
    require(q.given_scale == 0 && q.scales.empty(),
            "{}: epilogue.quantized has scales, but none of int8, float8 and q8_0", where);
  }
}

}  // namespace addnorm::kernels
