#pragma once

#include <functional>
#include <string>

#include "doctor/subject.h"
#include "model/streamed_model.h"
#include "run/run_folder.h"

namespace addnorm::doctor {

/// A model with what is known of it beside its numbers.
struct OpenedModel {
  Subject subject;  ///< its profile has no entries yet
  model::StreamedModel model;
};

/// A change of what a model's files say it is.
using RecipeChange = std::function<void(model::Recipe&)>;

/// Opens a folder with config.json and safetensors files, one .safetensors file beside its
/// config.json, or a .gguf file. A final norm that the recipe has and the files lack is left out,
/// for the doctor to find, and so is BERT's head; any other parameter that is missing is an Error.
OpenedModel open_model(const std::string& path, const RecipeChange& change = {});

/// Whether the path is a folder that `addnorm train` has written.
bool is_run(const std::string& path);
/// A run's settings, metrics and profiles: all there is where it ended before its first checkpoint.
Subject read_run(const run::RunFiles& files);
/// The same with the model of its checkpoint, and the profiles before that.
OpenedModel open_run(const run::RunFiles& files);
OpenedModel open_run(const run::RunFiles& files, Subject before);  ///< `before`: read_run(files)

/// Whether the path is a profile and not a model: a name with .jsonl, a file that begins as a
/// profile does, or a pipe.
bool is_profile(const std::string& path);
/// The profile of a .jsonl file, of one step or of several.
Subject read_profile(const std::string& file);

}  // namespace addnorm::doctor
