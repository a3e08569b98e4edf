// The layouts of structs, with which TypeScript writes and reads their fields by name.

#include <fmt/format.h>

#include <cstddef>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "addnorm.h"
#include "wasm/lanes.h"
#include "wasm/module.h"
#include "wasm/options.h"

namespace addnorm {
namespace {

struct Field {
  std::string_view name, type;
  std::size_t offset;
};

template <typename T>
constexpr Field field(std::string_view name, std::size_t offset) {
  return {name,
          std::is_same_v<T, double>  ? "Float64"
          : std::is_same_v<T, float> ? "Float32"
          : sizeof(T) == 8           ? "BigUint64"
                                     : "Uint32",  // also for enums and addresses
          offset};
}

std::string field_json(const Field& f) {
  return fmt::format(R"("{}":["{}",{}])", f.name, f.type, f.offset);
}

std::string layout(std::string_view name, std::size_t bytes, std::span<const Field> fields) {
  return fmt::format(R"("{}":{{"bytes":{},"fields":{{{}}}}})", name, bytes,
                     fmt::join(fields | std::views::transform(field_json), ","));
}

#define FIELD(name) field<decltype(Struct::name)>(#name, offsetof(Struct, name))
#define STRUCT(name, ...)                             \
  [] {                                                \
    using Struct = name;                              \
    static constexpr Field kFields[] = {__VA_ARGS__}; \
    return layout(#name, sizeof(Struct), kFields);    \
  }()

}  // namespace

/// Returns {"struct": {"bytes": its size, "fields": {"field": [type, offset], ...}}, ...}, with the
/// fields that TypeScript uses. A type is the suffix of DataView's functions for it.
ADDNORM_EXPORT(layouts) const char* layouts() {
  static const std::string structs[] = {
      STRUCT(addnorm_norm_options, FIELD(size), FIELD(kind), FIELD(epsilon_at), FIELD(variance),
             FIELD(gamma_form), FIELD(epsilon), FIELD(groups)),
      STRUCT(addnorm_add_norm_forward_args, FIELD(size), FIELD(dtype), FIELD(rows), FIELD(features),
             FIELD(norm), FIELD(add.x), FIELD(add.branch), FIELD(sum), FIELD(gamma), FIELD(beta),
             FIELD(y), FIELD(statistics), FIELD(positions), FIELD(workspace),
             FIELD(workspace_size)),
      STRUCT(addnorm_add_norm_backward_args, FIELD(size), FIELD(dtype), FIELD(rows),
             FIELD(features), FIELD(norm), FIELD(s), FIELD(statistics), FIELD(gamma), FIELD(dy),
             FIELD(d_residual), FIELD(dx), FIELD(d_gamma), FIELD(d_beta), FIELD(workspace),
             FIELD(workspace_size), FIELD(positions)),
      STRUCT(addnorm_statistics_f32, FIELD(mean_hi), FIELD(mean_lo), FIELD(reciprocal),
             FIELD(scale), FIELD(variance)),
      STRUCT(addnorm_statistics_f64, FIELD(mean_hi), FIELD(mean_lo), FIELD(reciprocal),
             FIELD(scale), FIELD(variance)),
      STRUCT(ModuleBlockOptions, FIELD(d_model), FIELD(heads), FIELD(d_ff), FIELD(feed_forward),
             FIELD(norm), FIELD(layer), FIELD(layers), FIELD(initialization), FIELD(seed)),
      STRUCT(Arrangement, FIELD(before), FIELD(inside), FIELD(after), FIELD(skip), FIELD(gain),
             FIELD(before_scale), FIELD(initial_gain), FIELD(final_norm)),
      STRUCT(SessionOptions, FIELD(layers), FIELD(width), FIELD(heads), FIELD(context),
             FIELD(batch), FIELD(learning_rate), FIELD(warm_up), FIELD(seed), FIELD(initialization),
             FIELD(norm)),
      STRUCT(Measurement, FIELD(stream), FIELD(gradient), FIELD(token_cosine), FIELD(turn)),
      STRUCT(TokenMeasurement, FIELD(stream), FIELD(gradient), FIELD(cosine)),
      STRUCT(LaneStack, FIELD(row), FIELD(lanes), FIELD(layers), FIELD(moved), FIELD(seed),
             FIELD(read), FIELD(carry), FIELD(write)),
      STRUCT(LaneStep, FIELD(lanes), FIELD(lanes_after), FIELD(features), FIELD(x), FIELD(f),
             FIELD(read), FIELD(carry), FIELD(write), FIELD(z), FIELD(next)),
      STRUCT(LaneGradient, FIELD(lanes), FIELD(features), FIELD(x), FIELD(d_next), FIELD(logits),
             FIELD(carry), FIELD(d_carry), FIELD(d_logits)),
      STRUCT(TrainedOptions, FIELD(layers), FIELD(width), FIELD(heads), FIELD(d_ff), FIELD(context),
             FIELD(epsilon)),
      STRUCT(PromptMeasurement, FIELD(stream), FIELD(branch), FIELD(features)),
      STRUCT(PromptPrediction, FIELD(next), FIELD(continuation), FIELD(length)),
  };
  static const std::string json = fmt::format("{{{}}}", fmt::join(structs, ","));
  return json.c_str();
}
#undef FIELD
#undef STRUCT

}  // namespace addnorm
