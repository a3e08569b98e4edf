#include "c/call.h"

#include <array>
#include <exception>
#include <new>

#include "addnorm/error.h"

namespace addnorm::c {
namespace {

thread_local std::array<char, 512> last_error{};

[[maybe_unused]] addnorm_status failed(addnorm_status status, std::string_view message) {
  last_error[message.copy(last_error.data(), last_error.size() - 1)] = '\0';
  return status;
}

}  // namespace

addnorm_status run_guarded(void (*run)(const void* body), const void* body) noexcept {
#ifdef __cpp_exceptions
  try {
    run(body);
  } catch (const Error& error) {
    return failed(ADDNORM_INVALID_ARGUMENT, error.what());
  } catch (const std::bad_alloc&) {
    return failed(ADDNORM_OUT_OF_MEMORY, "there is no memory left");
  } catch (const std::exception& error) {
    return failed(ADDNORM_INTERNAL_ERROR, error.what());
  } catch (...) {
    return failed(ADDNORM_INTERNAL_ERROR, "an exception of an unknown type");
  }
#else
  run(body);  // fail() traps
#endif
  return ADDNORM_OK;
}

NormOptions norm_options(std::string_view where, const addnorm_norm_options* given) {
  NormOptions options;
  if (given == nullptr) return options;
  const addnorm_norm_options o = read_struct(where, "norm", given);
  options.kind = choice<NormKind>(where, "kind", o.kind);
  options.epsilon_at = choice<EpsilonAt>(where, "epsilon_at", o.epsilon_at);
  options.variance = choice<Variance>(where, "variance", o.variance);
  options.gamma_form = choice<GammaForm>(where, "gamma_form", o.gamma_form);
  options.epsilon = o.epsilon;
  if (o.output_scale != 0) options.output_scale = o.output_scale;
  if (o.groups != 0) options.groups = o.groups;
  if (o.alpha != 0) options.alpha = o.alpha;
  return options;
}

}  // namespace addnorm::c

const char* addnorm_last_error() {
  return addnorm::c::last_error.data();
}
