#include <fstream>
#include <optional>

#include "doctor/diagnose.h"
#include "fuzz.h"
#include "io/json.h"
#include "io/temporary_folder.h"

/// The first line has the settings of a run, and the others its metrics.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const addnorm::io::TemporaryFolder folder;
  return fuzz(data, size, [](const std::string& text) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    addnorm::run::RunConfig config;
    addnorm::run::update(config, addnorm::io::parse_json(text.substr(0, end), "file"), "file");
    addnorm::run::check(config);
    const std::string metrics = folder.path() + "/metrics.jsonl";
    std::ofstream(metrics) << text.substr(end);
    addnorm::doctor::diagnose(
        {.config = config, .metrics = addnorm::run::read_metrics(metrics), .unigram_loss = 3.3});
  });
}
