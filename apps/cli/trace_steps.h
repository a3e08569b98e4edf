#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lab/trace.h"

/// The parts of the texts of `addnorm trace`.

namespace addnorm::cli {

/// The colours of the vectors in document 004, as far as they suit both black and white
/// backgrounds.
enum Colour { kCyan = 37, kOrange = 172, kYellow = 178, kGreen = 71 };

/// x, F(x) and their sum share one scale, x̂ and y another.
enum Scaling { kStream, kNormed };

/// A heading, lines of text, and bars labelled with their formulas.
struct Step {
  std::string title;
  std::string formula;
  std::string text = {};
  std::vector<double> values = {};
  std::vector<std::string> labels = {};  ///< of the first values, those with a bar
  Colour colour = kCyan;
  Scaling scaling = kStream;
};

/// Returns four significant digits without trailing zeros.
std::string number(double value);

/// Returns the numbers of the values with a bar, padded to one width.
std::vector<std::string> column(const std::vector<double>& values);

/// Returns "x1", "x2", … for the values with a bar.
std::vector<std::string> names(std::string_view letter, const std::vector<double>& values);

/// The input of a norm, its output, and the reader of the output: "s", "y", "".
struct NormWords {
  std::string of;
  std::string result;
  std::string meaning = {};
};
/// Returns the steps of a norm for a terminal of this width.
std::vector<Step> norm_steps(const lab::NormTrace& norm, const NormWords& words, int width);
/// Returns only mean and deviation, for values that are not normalized.
Step statistics_step(const lab::NormTrace& norm, const NormWords& words, int width);

/// Draws all steps.
std::string draw(const std::vector<Step>& steps, int width);

}  // namespace addnorm::cli
