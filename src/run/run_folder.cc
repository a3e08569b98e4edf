#include "run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/require.h"
#include "io/file.h"

namespace addnorm::run {

namespace fs = std::filesystem;

RunFiles::RunFiles(const std::string& folder_)
    : folder(folder_),
      config((fs::path(folder) / "config.json").string()),
      metrics((fs::path(folder) / "metrics.jsonl").string()),
      profile((fs::path(folder) / "profile.jsonl").string()),
      checkpoint((fs::path(folder) / "checkpoint.safetensors").string()),
      best((fs::path(folder) / "best.safetensors").string()),
      report((fs::path(folder) / "report.html").string()) {}

namespace {

/// Tries for a tenth of a second: a process that only tests whether the run is active holds the
/// lock for less. Returns errno, or 0 with the lock.
int lock(int descriptor) {
  using namespace std::chrono_literals;
  for (int tries = 0; tries < 10; ++tries) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno != EWOULDBLOCK) return errno;
    std::this_thread::sleep_for(10ms);
  }
  return EWOULDBLOCK;
}

/// A run writes only into its own folder.
void refuse_links(const RunFiles& files) {
  for (const std::string& file :
       {files.config, files.metrics, files.profile, files.checkpoint, files.best, files.report}) {
    std::error_code error;
    require(!fs::is_symlink(file, error), "{}: is a link; expected a file of the run's own", file);
  }
}

}  // namespace

RunLock::RunLock(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, "{}: the run's folder cannot be created: {}", folder, error.message());
  refuse_links(RunFiles(folder));
  const std::string file = (fs::path(folder) / ".lock").string();
  descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  require(descriptor_ >= 0, "{}: the run's folder cannot be written: {}", folder,
          std::strerror(errno));
  if (const int reason = lock(descriptor_); reason != 0) {
    ::close(descriptor_);
    fail(reason == EWOULDBLOCK
             ? fmt::format("{}: the run's folder is in use by another process", folder)
             : fmt::format("{}: the run's folder cannot be locked: {}", folder,
                           std::strerror(reason)));
  }
  io::remove_temporaries(folder);
}

RunLock::~RunLock() {
  ::close(descriptor_);
}

}  // namespace addnorm::run
