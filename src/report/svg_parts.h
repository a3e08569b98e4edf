#pragma once

/// The parts of images; svg.h has the complete images.

#include <string>
#include <string_view>
#include <vector>

#include "report/chart.h"

namespace addnorm::report {

constexpr double kTitleSize = 17;
constexpr double kTextSize = 13;
constexpr double kEdge = 12;  // around the whole image

/// A drawing without the surrounding <svg>.
struct Image {
  double width, height;
  std::string title, description;
  std::string body;
};

/// Returns the width of a text in the broader sans-serif fonts; in other fonts it leaves a little
/// space.
double text_width(std::string_view text, double size);

/// Breaks the text into lines that fit into `width` pixels in a broad and bold font.
std::vector<std::string> lines_of(std::string_view text, double width, double size);

/// Draws a paragraph in lines from `top` on, and moves `top` below it.
std::string paragraph(std::string_view text, std::string_view css_class, double size, double width,
                      double& top);

/// Draws a chart of heat maps.
Image draw_heat_maps(const Chart& chart, int width);

}  // namespace addnorm::report
