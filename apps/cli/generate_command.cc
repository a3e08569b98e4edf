#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/options.h"
#include "io/file.h"
#include "run/checkpoint.h"
#include "run/run_folder.h"
#include "run/text_generator.h"

namespace addnorm::cli {
namespace {

struct GenerateFlags {
  std::string run;
  std::string prompt = "\n";
  std::uint64_t tokens = 500;
  run::Sampling sampling = {.temperature = 0.8};
  std::uint64_t seed = 0;
};

/// Loads the decoder of a run, or of a checkpoint file.
Decoder<float> load(const std::string& run) {
  const bool is_folder = std::filesystem::is_directory(run);
  const run::Checkpoint checkpoint(is_folder ? run::RunFiles(run).checkpoint : run);
  check(checkpoint.state().config);
  return run::load_decoder(checkpoint);
}

ExitStatus generate(const GenerateFlags& flags) {
  check(flags.sampling);
  Decoder<float> decoder = load(flags.run);
  const std::string prompt = flags.prompt == "-" ? io::read_file("/dev/stdin") : flags.prompt;
  run::TextGenerator generator(decoder, prompt, flags.sampling, flags.seed);
  std::fwrite(prompt.data(), 1, prompt.size(), stdout);
  for (std::uint64_t i = 0; i < flags.tokens; ++i) {
    std::putchar(generator.next());
    std::fflush(stdout);
  }
  std::putchar('\n');
  return kDone;
}

constexpr const char* kGenerateExamples = R"(Examples:
  addnorm generate out/run --prompt "The " --tokens 200
  addnorm generate out/run --temperature 0.5 --top-k 20 --seed 1
  tail -c 100 book.txt | addnorm generate out/run --prompt -)";

}  // namespace

Command generate_command(CLI::App& program) {
  const auto flags = std::make_shared<GenerateFlags>();
  CLI::App* app = program.add_subcommand("generate", "Generate text with a trained model");
  app->add_option("RUN", flags->run, "folder of a run, or a checkpoint")->required()->type_name("");
  app->add_option("--prompt", flags->prompt,
                  "text to continue (default: a new line); -: from standard input");
  add_count(*app, "--tokens", flags->tokens, "bytes to write (default 500)");
  add_number(*app, "--temperature", flags->sampling.temperature,
             "temperature, which divides the logits; 0: always the likeliest byte (default 0.8)");
  add_count(*app, "--top-k", flags->sampling.top_k,
            "sample only from the k likeliest bytes; 0: from all (default 0)");
  add_number(
      *app, "--top-p", flags->sampling.top_p,
      "sample only from the likeliest bytes that together reach this probability (default 1)");
  add_count(*app, "--seed", flags->seed, "the same seed writes the same text (default 0)");
  app->footer(kGenerateExamples);
  return {app, [flags] { return generate(*flags); }};
}

}  // namespace addnorm::cli
