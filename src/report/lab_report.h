#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/figure.h"
#include "report/chart.h"

namespace addnorm::report {

/// A figure of the lab with its options and its result.
struct LabRun {
  const lab::Figure& figure;
  lab::FigureOptions options;
  lab::FigureResult result;
};

/// A figure for a page, from a run or from its FIGURE.json.
struct LabEntry {
  const lab::Figure& figure;
  std::string setting;  ///< "12 layers; width 128; 8 seeds from 0"
  lab::FigureResult result;
};

/// Returns charts whose curves have the same colour in all panels, by name. The prediction of a
/// measured curve has no legend entry.
std::vector<Chart> to_charts(std::span<const lab::Panel> panels);

/// Returns plots, checks and verdict for a terminal of this width, in full colour and UTF-8.
std::string lab_text(const LabRun& run, int width);

/// Returns a table of the verdicts.
std::string lab_summary(std::span<const LabRun> runs, int width);

/// Returns FIGURE.json: options, curves, checks, verdict.
std::string lab_json(const LabRun& run);

LabEntry lab_entry(const LabRun& run);
/// Returns the entry of a FIGURE.json. A number that is not finite is read as NaN; such a limit or
/// edge of a band is read as infinity. Throws an Error that names `file` if lab_json() cannot have
/// written the text, or no such figure exists.
LabEntry read_lab_json(std::string_view text, const std::string& file);

/// Returns lab_json() with additions for a page: setting and tally in words, each check's sentence,
/// and for each panel the whole caption, the ends of its axes, the colours of its curves and their
/// names in the legend. Texts to show are in this language.
std::string lab_page_json(LabRun run, const Language& language = {});

/// Returns FIGURE.svg: the figure's panels in one image.
std::string lab_svg(const LabRun& run);

/// Returns index.html: one file with all figures.
std::string lab_html(std::span<const LabEntry> entries);

/// Returns a list of the figures with their options, and of the silent bugs.
std::string lab_list_text(std::span<const lab::Figure> figures, int width);
std::string lab_list_json(std::span<const lab::Figure> figures);

}  // namespace addnorm::report
