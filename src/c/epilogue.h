#pragma once

/// Reads the structs of epilogues in addnorm.h.

#include "addnorm.h"
#include "addnorm/norm.h"
#include "c/call.h"

namespace addnorm::c {

/// The rows and features of a call, and its memory.
struct CallShape {
  std::size_t rows, features;
  const CallMemory& memory;
};

template <typename B>
Gate<B> read_gate(const addnorm_epilogue& e, const CallShape& call) {
  const std::string_view where = call.memory.where();
  return {.z = call.memory.read_optional<B>("epilogue.gate.z", e.z, call.rows, call.features,
                                            e.z_stride),
          .function = choice<GateFunction>(where, "gate_function", e.gate_function),
          .place = choice<GatePlace>(where, "gate_place", e.gate_place)};
}

template <typename V>
Modulation<V> read_modulation(const addnorm_epilogue& e, const CallShape& call) {
  require((e.samples > 0) == (e.scale != nullptr || e.shift != nullptr) || call.rows == 0,
          "{}: epilogue.samples is {}, but scale and shift are {}", call.memory.where(), e.samples,
          e.samples > 0 ? "NULL" : "not both NULL");
  const auto read = [&](std::string_view name, const void* data, std::size_t stride) {
    return data == nullptr ? MatrixView<const V>{}
                           : call.memory.read<V>(name, data, e.samples, call.features, stride);
  };
  return {.scale = read("epilogue.modulation.scale", e.scale, e.scale_stride),
          .shift = read("epilogue.modulation.shift", e.shift, e.shift_stride)};
}

inline Quantized read_quantized(const addnorm_epilogue& e, const CallShape& call) {
  const CallMemory& memory = call.memory;
  Quantized q{.block = e.block, .given_scale = e.given_scale};
  const auto write = [&](auto& view, std::string_view name, std::size_t values) {
    using T = std::remove_pointer_t<decltype(view.data)>;
    view =
        memory.write<T>(name, e.quantized, call.rows, call.features / values, e.quantized_stride);
  };
  switch (choice(memory.where(), "quantized_type", e.quantized_type, ADDNORM_Q8_0)) {
    case ADDNORM_NOT_QUANTIZED:
      require(e.quantized == nullptr, "{}: epilogue.quantized is not NULL, but has no type",
              memory.where());
      break;
    case ADDNORM_INT8:
      write(q.int8, "epilogue.quantized.int8", 1);
      break;
    case ADDNORM_FLOAT8_E4M3:
      write(q.float8, "epilogue.quantized.float8", 1);
      break;
    case ADDNORM_Q8_0:
      write(q.q8_0, "epilogue.quantized.q8_0", Q8Block::kValues);
      break;
  }
  if (e.scales != nullptr) {
    q.scales = memory.write<float>("epilogue.quantized.scales", e.scales, call.rows,
                                   e.block == 0 ? 1 : call.features / e.block, e.scales_stride);
  }
  return q;
}

template <typename S, typename B>
Epilogue<S, B> read_epilogue(const addnorm_epilogue* given, const CallShape& call) {
  if (given == nullptr) return {};
  using V = Arithmetic<S>;
  const addnorm_epilogue e = read_struct(call.memory.where(), "epilogue", given);
  return {.gate = read_gate<B>(e, call),
          .modulation = read_modulation<V>(e, call),
          .quantized = read_quantized(e, call),
          .unrounded = call.memory.write_optional<V>("epilogue.unrounded", e.unrounded, call.rows,
                                                     call.features, e.unrounded_stride)};
}

template <typename S, typename B>
EpilogueBackward<S, B> read_epilogue(const addnorm_epilogue_backward* given,
                                     const CallShape& call) {
  if (given == nullptr) return {};
  using V = Arithmetic<S>;
  const CallMemory& memory = call.memory;
  const auto a = read_struct(memory.where(), "epilogue", given);
  const auto e = read_struct(memory.where(), "epilogue.forward", a.forward);
  const auto by_sample = [&](std::string_view name, void* data, std::size_t stride) {
    return data == nullptr ? MatrixView<V>{}
                           : memory.write<V>(name, data, e.samples, call.features, stride);
  };
  return {
      .gate = read_gate<B>(e, call),
      .modulation = read_modulation<V>(e, call),
      .beta = memory.read<V>("epilogue.beta", a.beta, call.features),
      .dz = memory.write_optional<B>("epilogue.dz", a.dz, call.rows, call.features, a.dz_stride),
      .d_scale = by_sample("epilogue.d_scale", a.d_scale, a.d_scale_stride),
      .d_shift = by_sample("epilogue.d_shift", a.d_shift, a.d_shift_stride)};
}

}  // namespace addnorm::c
