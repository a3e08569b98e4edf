#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace addnorm::io {

/// Returns the bytes of a whole file, or of a pipe or device up to its end. Throws an Error if a
/// file has more than `most` bytes, before it reads them, or if a pipe exceeds the limit.
std::string read_file(const std::string& file,
                      std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// Limits the bytes that are read from a pipe or device; initially 1 GiB.
void limit_pipes(std::uint64_t bytes);

/// Bytes and their owner.
struct FileBytes {
  std::string_view view;
  std::shared_ptr<const void> owner;
};

/// Maps a file: its bytes are read when they are accessed, and shared by all processes that map it.
/// Files that cannot be mapped, such as pipes, are read. No process may shorten the file meanwhile:
/// access to missing bytes raises SIGBUS. write_files and write_file are safe, because they replace
/// the file by a new one.
FileBytes map_file(const std::string& file);

/// Returns the name, shortened, of the file mapped at the address, or null. For a SIGBUS handler.
const char* mapped_file_at(const void* address) noexcept;

/// The bytes of the files, one after the other.
std::string read_text(const std::vector<std::string>& files);

/// Appends to a file and creates it if needed; returns when the bytes are in the system's hands.
/// Throws an Error for a link or a file that is not regular.
void append_file(const std::string& file, std::string_view bytes);

/// Returns when what was appended to a file survives a power failure. The file may be absent.
void sync_file(const std::string& file);

/// Removes temporary files that killed writers left in the folder.
void remove_temporaries(const std::string& folder);

/// A file that a command writes.
struct OutputFile {
  std::string file;
  std::string bytes;
};

/// Throws the errors that write_files would throw before it writes, so that long work does not fail
/// at its end. They are a missing or read-only folder, a name that is no regular file, and the same
/// file twice.
void check_outputs(const std::vector<std::string>& files);

/// Writes one file piece by piece. At any moment either the old or the new content is there,
/// complete. A file that is replaced keeps its mode and, where permitted, its owner.
void write_file(const std::string& file, std::span<const std::string_view> pieces);

/// Writes all files or none. Each is written and synced under a temporary name in its folder, and
/// all are renamed at the end. An error also undoes the renames. Links are followed. Files that are
/// replaced keep their mode and, where permitted, their owner.
void write_files(const std::vector<OutputFile>& files);

}  // namespace addnorm::io
