#pragma once

#include <filesystem>

namespace addnorm::cli {

/// The folder of what the program reads unasked, under its names in the source tree: share/addnorm
/// beside the bin in which the program is. In a build folder that is a link to the source tree.
std::filesystem::path own_files();

}  // namespace addnorm::cli
