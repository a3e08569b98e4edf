#pragma once

#include <filesystem>

namespace addnorm::cli {

/// Returns the folder of the program's own data files, which have the same names as in the source
/// tree. It is share/addnorm next to the program's bin. In a build folder it is a link to the
/// source tree.
std::filesystem::path own_files();

}  // namespace addnorm::cli
