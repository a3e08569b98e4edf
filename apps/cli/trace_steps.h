#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lab/trace.h"

/// What the texts of `addnorm trace` are made of.

namespace addnorm::cli {

/// The colours of the vectors in document 004, as far as black and white paper both bear them.
enum Colour { kCyan = 37, kOrange = 172, kYellow = 178, kGreen = 71 };

/// x, F(x) and their sum are drawn on one scale, x̂ and y on another.
enum Scaling { kStream, kNormed };

/// A heading, lines of text, and bars that are labelled with their formulas.
struct Step {
  std::string title;
  std::string formula;
  std::string text = {};
  std::vector<double> values = {};
  std::vector<std::string> labels = {};  ///< of those values that have a bar, the first
  Colour colour = kCyan;
  Scaling scaling = kStream;
};

/// Four digits without the zeros at the end.
std::string number(double value);

/// The numbers of the values that have a bar, all of one width.
std::vector<std::string> column(const std::vector<double>& values);

/// "x1", "x2", …, for the values that have a bar.
std::vector<std::string> names(std::string_view letter, const std::vector<double>& values);

/// What a norm is of, what it gives, and to whom: "s", "y", "".
struct NormWords {
  std::string of;
  std::string result;
  std::string meaning = {};
};
/// The steps of a norm for a terminal of this width.
std::vector<Step> norm_steps(const lab::NormTrace& norm, const NormWords& words, int width);
/// Mean and deviation alone, of values that stay as they are.
Step statistics_step(const lab::NormTrace& norm, const NormWords& words, int width);

/// All steps.
std::string draw(const std::vector<Step>& steps, int width);

}  // namespace addnorm::cli
