#pragma once

/// What images are put together from; svg.h has those that are whole.

#include <string>
#include <string_view>
#include <vector>

#include "report/chart.h"

namespace addnorm::report {

constexpr double kTitleSize = 17;
constexpr double kTextSize = 13;
constexpr double kEdge = 12;  // of the image, around all that is drawn

/// What is drawn, without what surrounds it.
struct Image {
  double width, height;
  std::string title, description;
  std::string body;
};

/// What the broader sans-serif fonts take; in the others a little more space remains.
double text_width(std::string_view text, double size);

/// Lines that fit into `width` pixels in a broad and bold font.
std::vector<std::string> lines_of(std::string_view text, double width, double size);

/// A paragraph in lines from `top` on, which moves below it.
std::string paragraph(std::string_view text, std::string_view css_class, double size, double width,
                      double& top);

/// A chart of heat maps.
Image draw_heat_maps(const Chart& chart, int width);

}  // namespace addnorm::report
