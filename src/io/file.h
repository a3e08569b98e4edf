#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace addnorm::io {

/// The bytes of a whole file, or of a pipe or device up to its end, which must come within the
/// limit. Throws Error where there are more than `most` bytes, before it reads them.
std::string read_file(const std::string& file,
                      std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// How much is read of a pipe or device, from here on: 1 GiB at first.
void limit_pipes(std::uint64_t bytes);

/// Bytes, and who keeps them.
struct FileBytes {
  std::string_view view;
  std::shared_ptr<const void> owner;
};

/// The bytes of a file that are read only when they are looked at, and shared by all who map it.
/// What cannot be mapped, as a pipe, is read. Nobody may shorten the file meanwhile: what is no
/// longer there raises SIGBUS. write_files and write_file do not, they put a new file in its place.
FileBytes map_file(const std::string& file);

/// The file that is mapped there, shortened, or null; for a handler of SIGBUS.
const char* mapped_file_at(const void* address) noexcept;

/// The bytes of the files, one after the other.
std::string read_text(const std::vector<std::string>& files);

/// Appends to a file, and makes it where it is missing; the bytes are with the system then. A link
/// or what is no regular file is refused.
void append_file(const std::string& file, std::string_view bytes);

/// Removes from the folder what writers that were killed have left there.
void remove_temporaries(const std::string& folder);

/// A file that a command writes.
struct OutputFile {
  std::string file;
  std::string bytes;
};

/// Throws what write_files would throw before it writes, so that long work does not start in vain:
/// a folder that is missing or cannot be written, a name that is no regular file, the same file
/// twice.
void check_outputs(const std::vector<std::string>& files);

/// Writes one file piece by piece: at any moment what was there or what is new is there, whole.
void write_file(const std::string& file, std::span<const std::string_view> pieces);

/// Writes all files or none. Each is written and synced under a temporary name in its folder, and
/// only then are they renamed; an error takes back the renames too. A link is followed.
void write_files(const std::vector<OutputFile>& files);

}  // namespace addnorm::io
