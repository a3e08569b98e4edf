#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace addnorm::cli {

/// An open file descriptor; false if there is none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  void close();

 private:
  int number_ = -1;
};

/// Two equal versions of a file have the same content, unless it was written twice within the
/// resolution of the file system's clock.
struct FileVersion {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t nanoseconds = 0;  ///< when it was last written, since 1970

  bool operator==(const FileVersion&) const = default;
  bool is_same_file(const FileVersion& other) const {
    return device == other.device && inode == other.inode;
  }
};

/// A regular file that is open for reading; false if there is none.
class OpenFile {
 public:
  OpenFile() = default;
  explicit OpenFile(const std::filesystem::path& file);
  /// Opens an entry of an open folder. A link is not followed.
  OpenFile(const Descriptor& folder, const char* name);

  explicit operator bool() const { return static_cast<bool>(descriptor_); }
  std::uint64_t size() const { return version_.size; }     ///< when it was opened
  const FileVersion& version() const { return version_; }  ///< when it was opened
  int descriptor() const { return descriptor_.number(); }

  /// Returns the bytes from `begin` up to the size, fewer if the file has become shorter.
  std::string read(std::uint64_t begin) const;

 private:
  explicit OpenFile(Descriptor descriptor);

  Descriptor descriptor_;
  FileVersion version_;
};

/// Opens a folder; false if there is none.
Descriptor open_folder(const std::filesystem::path& folder);
/// Opens a folder in an open folder. A link is not followed. If a folder of the path is meanwhile
/// replaced by a link, the open one remains the original.
Descriptor open_folder(const Descriptor& folder, const char* name);

/// Returns the names of the entries that may be folders, sorted. An entry that is removed meanwhile
/// may be missing, and no other one. Throws an Error if the folder cannot be read.
std::vector<std::string> folder_names(const Descriptor& folder);

}  // namespace addnorm::cli
