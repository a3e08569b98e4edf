#include <fstream>
#include <optional>

#include "doctor/diagnose.h"
#include "fuzz.h"
#include "io/json.h"
#include "io/temporary_folder.h"

/// Settings on the first line, metrics on the others.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const addnorm::TemporaryFolder folder;
  return fuzz(data, size, [](const std::string& text) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    addnorm::RunConfig config;
    addnorm::update(config, addnorm::parse_json(text.substr(0, end), "file"), "file");
    addnorm::check(config);
    const std::string metrics = folder.path() + "/metrics.jsonl";
    std::ofstream(metrics) << text.substr(end);
    addnorm::diagnose(
        {.config = config, .metrics = addnorm::read_metrics(metrics), .unigram_loss = 3.3});
  });
}
