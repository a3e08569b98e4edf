#include "call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "addnorm/api.h"
#include "base/require.h"

namespace addnorm::python {
namespace {

constexpr auto kKinds = names_of(NormKind{});

std::string call_check_norm(const Json& arguments, Progress /*progress*/) {
  norm_options(arguments.at(0));
  return {};
}

/// Returns the names of the enums of addnorm_norm_options, in the order of their numbers.
std::string call_norm_names(const Json& /*arguments*/, Progress /*progress*/) {
  return Json{{"kind", kKinds},
              {"eps_at", names_of(EpsilonAt{})},
              {"variance", names_of(Variance{})},
              {"gamma_form", names_of(GammaForm{})}}
      .dump();
}

/// Returns the number of a kind without statistics, "dyt" or "derf".
std::string call_squashing_kind(const Json& arguments, Progress /*progress*/) {
  constexpr auto kinds = std::span(kKinds).subspan(kNormsWithStatistics);
  const std::size_t place = find_name("kind", arguments.at(0).get<std::string>(), kinds);
  return std::to_string(kNormsWithStatistics + place);
}

constexpr Function kNormFunctions[] = {{"check_norm", call_check_norm},
                                       {"norm_names", call_norm_names},
                                       {"squashing_kind", call_squashing_kind}};

const Function& find_function(std::string_view name) {
  for (const std::span<const Function> functions :
       {std::span<const Function>(kNormFunctions), lab_functions(), doctor_functions(),
        program_functions()}) {
    const auto found = std::ranges::find(functions, name, &Function::name);
    if (found != functions.end()) return *found;
  }
  fail(fmt::format("the library has no function \"{}\"", name));
}

char* copy_of(const std::string& text) {
  char* const copy = new char[text.size() + 1];
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace

NormOptions norm_options(const Json& fields) {
  constexpr auto kinds = std::span(kKinds).first(kRowNorms);
  const auto text = [&](std::size_t i) { return fields.at(i).get<std::string>(); };
  return {.kind = static_cast<NormKind>(find_name("kind", text(0), kinds)),
          .epsilon = fields.at(1).get<double>(),
          .epsilon_at = parse<EpsilonAt>("eps_at", text(2)),
          .variance = parse<Variance>("variance", text(3)),
          .gamma_form = parse<GammaForm>("gamma_form", text(4)),
          .output_scale = fields.at(5).get<double>()};
}

std::string bytes_of(const Json& latin1) {
  const auto text = latin1.get<std::string>();
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {  // U+0080 to U+00FF have two bytes in UTF-8
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_pair = byte >= 0xC0;
    bytes += is_pair ? static_cast<char>((byte & 3) << 6 | (text[++i] & 0x3F)) : text[i];
  }
  return bytes;
}

}  // namespace addnorm::python

extern "C" {

/// Calls a function by its name with {"arguments": […]}. Returns a Status; `result` becomes
/// the function's text or an error's message, to be given to addnorm_python_free().
ADDNORM_API int addnorm_python_call(const char* name, const char* given,
                                    addnorm::python::Progress progress, char** result) {
  using namespace addnorm;
  using namespace addnorm::python;
  const auto with = [&](Status status, const std::string& text) {
    *result = copy_of(text);
    return static_cast<int>(status);
  };
  try {
    return with(Status::kOk, find_function(name).run(
                                 io::parse_json(given, "arguments").at("arguments"), progress));
  } catch (const Error& error) {
    return with(Status::kError, error.what());
  } catch (const std::bad_alloc&) {
    *result = nullptr;
    return static_cast<int>(Status::kOutOfMemory);
  } catch (const std::exception& error) {
    return with(Status::kOther, error.what());
  }
}

ADDNORM_API void addnorm_python_free(char* result) {
  delete[] result;
}

}  // extern "C"
