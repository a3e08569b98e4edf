#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/figure.h"
#include "report/chart.h"

namespace addnorm::report {

/// A figure of the lab with what was asked of it and what came out.
struct LabRun {
  const lab::Figure& figure;
  lab::FigureOptions options;
  lab::FigureResult result;
};

/// A figure as a page shows it, of a run or of its FIGURE.json.
struct LabEntry {
  const lab::Figure& figure;
  std::string setting;  ///< "12 layers; width 128; 8 seeds from 0"
  lab::FigureResult result;
};

/// A curve has the colour of its name, the same in all panels. What is predicted of a measured
/// curve has no name of its own.
std::vector<Chart> to_charts(std::span<const lab::Panel> panels);

/// The plots, the checks and the verdict for a terminal of this width, in full colour and UTF-8.
std::string lab_text(const LabRun& run, int width);

/// A table of the verdicts.
std::string lab_summary(std::span<const LabRun> runs, int width);

/// FIGURE.json: options, curves, checks, verdict.
std::string lab_json(const LabRun& run);

LabEntry lab_entry(const LabRun& run);
/// The entry of a FIGURE.json. A number that is not finite comes back as NaN, a limit or the edge
/// of a band as infinity. Throws an Error that names `file` where lab_json() does not write such a
/// text for a figure that exists.
LabEntry read_lab_json(std::string_view text, const std::string& file);

/// The same with what a page shows: the setting and the tally in words, each panel's caption and
/// its images for a page and a phone, each check's sentence.
std::string lab_page_json(const LabRun& run);

/// FIGURE.svg: the figure's panels in one image.
std::string lab_svg(const LabRun& run);

/// index.html: one file with all figures.
std::string lab_html(std::span<const LabEntry> entries);

/// What there is: the figures with the options that each takes, and the silent bugs.
std::string lab_list_text(std::span<const lab::Figure> figures, int width);
std::string lab_list_json(std::span<const lab::Figure> figures);

}  // namespace addnorm::report
