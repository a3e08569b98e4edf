#pragma once

#include <string>

#include "report/chart.h"
#include "run/metrics.h"
#include "run/run_config.h"
#include "run/run_folder.h"

namespace addnorm::report {

/// Returns "2.074 nats, 2.992 bits per byte".
std::string loss_text(double nats);

/// Returns a chart of the loss by step, in training and in validation.
Chart loss_chart(const run::Metrics& metrics);

/// Returns report.html of a run, from the files in its folder: loss, gradient norm, stream and
/// gradient by layer during training, settings.
std::string run_html(const run::RunConfig& config, const run::RunFiles& files);

}  // namespace addnorm::report
