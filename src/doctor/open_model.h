#pragma once

#include <functional>
#include <string>

#include "doctor/subject.h"
#include "model/streamed_model.h"
#include "run/run_folder.h"

namespace addnorm::doctor {

/// A model and the subject that describes it.
struct OpenedModel {
  Subject subject;  ///< its profile has no entries yet
  model::StreamedModel model;
};

/// A change of the recipe that a model's files describe.
using RecipeChange = std::function<void(model::Recipe&)>;

/// Opens a folder with config.json and safetensors files, one .safetensors file next to its
/// config.json, or a .gguf file. If the files lack the recipe's final norm or BERT's head, the
/// model is opened without it, so that the doctor can find that. Any other missing parameter throws
/// an Error.
OpenedModel open_model(const std::string& path, const RecipeChange& change = {});

/// Returns whether the path is a folder that `addnorm train` wrote.
bool is_run(const std::string& path);
/// Returns a run's settings, metrics and profiles; a run that ended before its first checkpoint has
/// nothing else.
Subject read_run(const run::RunFiles& files);
/// Opens a run with the model of its checkpoint, and the earlier profiles.
OpenedModel open_run(const run::RunFiles& files);
OpenedModel open_run(const run::RunFiles& files, Subject before);  ///< `before`: read_run(files)

/// Returns whether the path is a profile and not a model: a name with .jsonl, a file that begins
/// like a profile, or a pipe.
bool is_profile(const std::string& path);
/// Returns the profile of a .jsonl file, with one step or several.
Subject read_profile(const std::string& file);

}  // namespace addnorm::doctor
