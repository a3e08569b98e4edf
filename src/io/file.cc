#include "io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string_view>
#include <system_error>

#include "base/require.h"
#include "base/shorten.h"

namespace addnorm::io {
namespace {

namespace fs = std::filesystem;

struct Close {
  void operator()(std::FILE* stream) const { std::fclose(stream); }
};
using Stream = std::unique_ptr<std::FILE, Close>;

/// Returns the real path of `file`: absolute, without links.
fs::path resolve(const std::string& file) {
  std::error_code error;
  fs::path path = fs::absolute(file, error);
  if (!error) path = fs::weakly_canonical(path, error);
  require(!error, "'{}': cannot be written: {}", file, error.message());
  return path;
}

constexpr std::string_view kTemporaryPrefix = ".addnorm-";
constexpr std::string_view kTemporarySuffix = ".tmp";

fs::path temporary_name(const fs::path& folder) {
  std::random_device random;
  return folder /
         fmt::format("{}{:08x}{:08x}{}", kTemporaryPrefix, random(), random(), kTemporarySuffix);
}

/// Syncs a folder, so that a new name survives a power failure. A folder that cannot be synced is
/// ignored.
void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

/// Creates `file`, which is to replace `target`: with its mode and, if this process may give files
/// away, its owner and group. Returns a descriptor, or -1 with errno.
int create_like(const fs::path& target, const fs::path& file) {
  struct stat old {};
  const bool replaces = ::stat(target.c_str(), &old) == 0;
  const int descriptor =
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, replaces ? 0600 : 0666);
  if (descriptor < 0 || !replaces) return descriptor;
  [[maybe_unused]] const int given = ::fchown(descriptor, old.st_uid, old.st_gid);
  ::fchmod(descriptor, old.st_mode & 07777);  // after fchown, which clears bits
  return descriptor;
}

/// An output that is being written. Until keep(), its destructor undoes everything.
class PendingFile {
 public:
  explicit PendingFile(const std::string& file);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  const fs::path& target() const { return target_; }
  void write(std::string_view bytes);
  void finish();
  void publish();
  void replace();
  void keep() { kept_ = true; }

 private:
  void check(bool success) const;

  std::string file_;  ///< as the user wrote it
  fs::path target_;
  fs::path temporary_;  ///< the new content
  fs::path backup_;     ///< the old content, from publish() on
  Stream stream_;
  bool has_backup_ = false;
  bool published_ = false;
  bool kept_ = false;
};

PendingFile::PendingFile(const std::string& file)
    : file_(file),
      target_(resolve(file)),
      temporary_(temporary_name(target_.parent_path())),
      backup_(temporary_name(target_.parent_path())) {
  std::error_code ignored;
  require(!fs::is_directory(target_, ignored), "{}: is a folder; expected a file name", file);
  require(fs::is_regular_file(target_, ignored) || !fs::exists(target_, ignored),
          "{}: is not a regular file", file);
  const std::string folder = target_.parent_path().string();
  require(fs::is_directory(folder, ignored), "{}: there is no folder {}", file, folder);
  const int descriptor = create_like(target_, temporary_);
  const int reason = errno;
  stream_.reset(descriptor < 0 ? nullptr : ::fdopen(descriptor, "wb"));
  require(stream_ != nullptr, "{}: the folder {} cannot be written: {}", file, folder,
          std::strerror(reason));
}

PendingFile::~PendingFile() {
  std::error_code ignored;
  if (!kept_) {
    fs::remove(temporary_, ignored);
    if (has_backup_) {
      fs::rename(backup_, target_, ignored);
    } else if (published_) {
      fs::remove(target_, ignored);
    }
  }
  fs::remove(backup_, ignored);
}

void PendingFile::check(bool success) const {
  if (!success) fail(fmt::format("{}: cannot be written: {}", file_, std::strerror(errno)));
}

void PendingFile::write(std::string_view bytes) {
  check(std::fwrite(bytes.data(), 1, bytes.size(), stream_.get()) == bytes.size());
}

void PendingFile::finish() {
  check(std::fflush(stream_.get()) == 0);
  check(::fsync(::fileno(stream_.get())) == 0);
  check(std::fclose(stream_.release()) == 0);
}

void PendingFile::publish() {
  // Gives the old content a second name. If the file system has no hard links, the old file is
  // renamed.
  has_backup_ = ::link(target_.c_str(), backup_.c_str()) == 0 ||
                (errno != ENOENT && std::rename(target_.c_str(), backup_.c_str()) == 0);
  check(std::rename(temporary_.c_str(), target_.c_str()) == 0);
  published_ = true;
  sync_folder(target_.parent_path());
}

/// For a single file: at any moment either the old or the new content is there, complete.
void PendingFile::replace() {
  check(std::rename(temporary_.c_str(), target_.c_str()) == 0);
  kept_ = true;
  sync_folder(target_.parent_path());
}

/// Opens every output; a deque, because a PendingFile stays where it was made.
std::deque<PendingFile> open_outputs(const std::vector<std::string>& files) {
  std::deque<PendingFile> outputs;
  std::map<fs::path, std::string> names;
  for (const std::string& file : files) {
    const fs::path& target = outputs.emplace_back(file).target();
    const auto [first, is_new] = names.try_emplace(target, file);
    require(is_new, "{}: is the same file as {}; expected a file for each output", file,
            first->second);
  }
  return outputs;
}

/// A mapped file, in a list that a signal handler can read.
class Mapping {
 public:
  Mapping(const std::string& file, void* bytes, std::size_t size)
      : file_(shorten(file, 200)), bytes_(static_cast<const char*>(bytes)), size_(size) {
    const std::lock_guard guard(mutex_);
    next_ = first_.load();
    first_ = this;
  }
  ~Mapping() {
    const std::lock_guard guard(mutex_);
    std::atomic<Mapping*>* link = &first_;
    while (*link != this) link = &link->load()->next_;
    *link = next_.load();
    ::munmap(const_cast<char*>(bytes_), size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  static const char* file_at(const void* address) noexcept {
    for (const Mapping* m = first_; m != nullptr; m = m->next_) {
      if (address >= m->bytes_ && address < m->bytes_ + m->size_) return m->file_.c_str();
    }
    return nullptr;
  }

 private:
  static inline std::mutex mutex_;  // for changes of the list
  static inline std::atomic<Mapping*> first_ = nullptr;

  const std::string file_;
  const char* const bytes_;
  const std::size_t size_;
  std::atomic<Mapping*> next_ = nullptr;
};

std::uint64_t most_of_a_pipe = std::uint64_t{1} << 30;

}  // namespace

void limit_pipes(std::uint64_t bytes) {
  most_of_a_pipe = bytes;
}

std::string read_file(const std::string& file, std::uint64_t most) {
  constexpr std::size_t kChunk = 1 << 20;
  const Stream stream(std::fopen(file.c_str(), "rb"));
  if (!stream) fail(fmt::format("{}: cannot be read: {}", file, std::strerror(errno)));
  std::string bytes;
  std::error_code no_size;  // of a pipe
  const std::uintmax_t size = fs::file_size(file, no_size);
  require(no_size || size <= most, "{}: has {} bytes, must have at most {}", file, size, most);
  if (!no_size) bytes.reserve(size + kChunk);
  const std::uint64_t limit = no_size ? std::min(most, most_of_a_pipe) : most;
  std::size_t got = 0;
  do {
    const std::size_t end = bytes.size();
    bytes.resize(end + kChunk);
    got = std::fread(bytes.data() + end, 1, kChunk, stream.get());
    bytes.resize(end + got);
    require(bytes.size() <= limit, "{}: gives more than {} bytes{}", file, limit,
            limit < most ? "; expected a regular file for so much" : "");
  } while (got == kChunk);
  const int reason = errno;
  require(std::ferror(stream.get()) == 0, "{}: cannot be read: {}", file, std::strerror(reason));
  return bytes;
}

FileBytes map_file(const std::string& file) {
  std::error_code is_pipe;
  const std::uintmax_t size = fs::file_size(file, is_pipe);
  void* bytes = MAP_FAILED;
  if (!is_pipe && size > 0) {  // a pipe is opened once: its writer may have ended at a second open
    const Stream stream(std::fopen(file.c_str(), "rb"));
    if (!stream) fail(fmt::format("{}: cannot be read: {}", file, std::strerror(errno)));
    bytes = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, ::fileno(stream.get()), 0);
  }
  if (bytes == MAP_FAILED) {
    const auto read = std::make_shared<const std::string>(read_file(file));
    return {*read, read};
  }
  return {{static_cast<const char*>(bytes), size}, std::make_shared<Mapping>(file, bytes, size)};
}

const char* mapped_file_at(const void* address) noexcept {
  return Mapping::file_at(address);
}

std::string read_text(const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& file : files) text += read_file(file);
  return text;
}

void append_file(const std::string& file, std::string_view bytes) {
  // Opening a pipe without a reader would block.
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const int descriptor = ::open(file.c_str(), kFlags, 0666);
  require(descriptor >= 0 || errno != ELOOP, "{}: is a link; expected a file", file);
  const Stream stream(descriptor < 0 ? nullptr : ::fdopen(descriptor, "ab"));
  struct stat found {};
  require(!stream || (::fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode)),
          "{}: is not a regular file", file);
  const bool written = stream &&
                       std::fwrite(bytes.data(), 1, bytes.size(), stream.get()) == bytes.size() &&
                       std::fflush(stream.get()) == 0;
  if (!written) fail(fmt::format("{}: cannot be written: {}", file, std::strerror(errno)));
}

void sync_file(const std::string& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0 && errno == ENOENT) return;
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int reason = errno;
  if (descriptor >= 0) ::close(descriptor);
  require(synced, "{}: cannot be written: {}", file, std::strerror(reason));
}

void remove_temporaries(const std::string& folder) {
  std::error_code error, ignored;
  // A range-for would throw where the folder cannot be read to its end.
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(kTemporaryPrefix) && name.ends_with(kTemporarySuffix)) {
      fs::remove(it->path(), ignored);
    }
  }
}

void check_outputs(const std::vector<std::string>& files) {
  open_outputs(files);
}

void write_file(const std::string& file, std::span<const std::string_view> pieces) {
  PendingFile output(file);
  for (const std::string_view piece : pieces) output.write(piece);
  output.finish();
  output.replace();
}

void write_files(const std::vector<OutputFile>& files) {
  std::vector<std::string> names;
  names.reserve(files.size());
  for (const OutputFile& output : files) names.push_back(output.file);
  std::deque<PendingFile> outputs = open_outputs(names);
  for (std::size_t i = 0; i < files.size(); ++i) {
    outputs[i].write(files[i].bytes);
    outputs[i].finish();
  }
  for (PendingFile& output : outputs) output.publish();
  for (PendingFile& output : outputs) output.keep();
}

}  // namespace addnorm::io
