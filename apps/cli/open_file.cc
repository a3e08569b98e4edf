#include "cli/open_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/require.h"

namespace addnorm::cli {
namespace {

// Opening a pipe would block until another process writes to it.
constexpr int kFileFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
constexpr int kFolderFlags = O_RDONLY | O_CLOEXEC | O_DIRECTORY;

}  // namespace

void Descriptor::close() {
  if (number_ >= 0) ::close(release());
}

OpenFile::OpenFile(const std::filesystem::path& file)
    : OpenFile(Descriptor(::open(file.c_str(), kFileFlags))) {}

OpenFile::OpenFile(const Descriptor& folder, const char* name)
    : OpenFile(Descriptor(::openat(folder.number(), name, kFileFlags | O_NOFOLLOW))) {}

OpenFile::OpenFile(Descriptor descriptor) : descriptor_(std::move(descriptor)) {
  struct stat found {};
  if (!descriptor_) return;
  if (::fstat(descriptor_.number(), &found) != 0 || !S_ISREG(found.st_mode)) {
    descriptor_.close();
    return;
  }
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  version_ = {found.st_dev, found.st_ino, static_cast<std::uint64_t>(found.st_size),
              found.st_mtim.tv_sec * kNanoseconds + found.st_mtim.tv_nsec};
}

std::string OpenFile::read(std::uint64_t begin) const {
  std::string bytes(begin < size() ? size() - begin : 0, '\0');
  std::size_t end = 0;
  while (end < bytes.size()) {
    const ssize_t n = ::pread(descriptor(), bytes.data() + end, bytes.size() - end,
                              static_cast<off_t>(begin + end));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    end += static_cast<std::size_t>(n);
  }
  bytes.resize(end);
  return bytes;
}

Descriptor open_folder(const std::filesystem::path& folder) {
  return Descriptor(::open(folder.c_str(), kFolderFlags));
}

Descriptor open_folder(const Descriptor& folder, const char* name) {
  return Descriptor(::openat(folder.number(), name, kFolderFlags | O_NOFOLLOW));
}

std::vector<std::string> folder_names(const Descriptor& folder) {
  // A descriptor of its own, because reading moves the descriptor's position.
  Descriptor own(::openat(folder.number(), ".", kFolderFlags));
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(own ? ::fdopendir(own.number()) : nullptr,
                                                    &::closedir);
  if (!entries) {
    require(errno == ENOENT, "a folder cannot be read: {}", std::strerror(errno));
    return {};  // it was removed
  }
  own.release();  // closedir() closes it
  std::vector<std::string> names;
  while (errno = 0, true) {
    const dirent* const entry = ::readdir(entries.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    const bool may_be_folder = entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN;
    if (may_be_folder && name != "." && name != "..") names.emplace_back(name);
  }
  require(errno == 0 || errno == ENOENT, "a folder cannot be read: {}", std::strerror(errno));
  std::ranges::sort(names);
  return names;
}

}  // namespace addnorm::cli
