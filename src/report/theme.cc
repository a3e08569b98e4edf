#include "report/theme.h"

#include <fmt/format.h>

namespace addnorm::report {
namespace {

// The series' colours have a contrast of 3:1 to the paper (WCAG 2.1, 1.4.11). The first four differ
// by 0.11 or more in OKLab, also under colour blindness (simulated as by Machado et al., 2009).
constexpr std::string_view kLight =
    "--paper:#fff;--ink:#1c2128;--muted:#59636e;--grid:#e4e7eb;--good:#1a7f4b;--bad:#c2290a;"
    "--c0:#2f74e8;--c1:#e8650a;--c2:#0a5c2e;--c3:#a3207e;"
    "--c4:#6e6208;--c5:#1a9cc0;--c6:#4a1f6e;--c7:#b56d78";
constexpr std::string_view kDark =
    "--paper:#14171c;--ink:#e8eaed;--muted:#9aa4b0;--grid:#2b3038;--good:#4cc38a;--bad:#ff7a59;"
    "--c0:#3f9bff;--c1:#f99a1c;--c2:#a5f0c0;--c3:#cf5a9b;"
    "--c4:#f2dc3c;--c5:#3fdcf5;--c6:#7a6ad6;--c7:#f0b0b4";

}  // namespace

// In print the colours are always the light ones.
std::string theme_css(std::string_view selector) {
  return fmt::format(
      "{0}{{color-scheme:light dark;{1}}}"
      "@media screen and (prefers-color-scheme:dark){{{0}{{{2}}}}}",
      selector, kLight, kDark);
}

}  // namespace addnorm::report
