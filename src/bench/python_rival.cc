#include "bench/python_rival.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

#include "bench/python_rival_script.h"  // python_rival.py

namespace addnorm::bench {
namespace {

constexpr PythonRivalKind kKinds[] = {
    {"pytorch", "PyTorch"},
    {"pytorch_as_is", "as it is", false},
    {"torch_compile", "compiled"},
    {"onnxruntime", "ONNX RT"},
};

/// Returns our environment, with variables that make the C library keep all freed memory.
std::vector<std::string> environment_of(const PythonRivalKind& kind) {
  const bool compiles = kind.name == "torch_compile";
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("MALLOC_") || (compiles && text.starts_with("LD_PRELOAD="))) continue;
    variables.emplace_back(text);
  }
  // The code that Debian's PyTorch compiles with vector instructions calls SLEEF, but does not link
  // it.
  if (compiles) variables.push_back("LD_PRELOAD=libsleef.so.3");
  if (kind.keeps_memory) {
    constexpr std::size_t kMuch = std::size_t{1} << 40;
    variables.push_back(fmt::format("MALLOC_MMAP_THRESHOLD_={}", kMuch));
    variables.push_back(fmt::format("MALLOC_TRIM_THRESHOLD_={}", kMuch));
    variables.push_back(fmt::format("MALLOC_TOP_PAD_={}", std::size_t{64} << 20));
  }
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Starts `python` with one end of a socket as its input and output; returns -1 if that fails.
pid_t start(const std::string& python, const PythonRivalKind& kind, int socket) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> words{python, "-c", kPythonRivalScript, std::string(kind.name)};
  std::vector<std::string> variables = environment_of(kind);
  pid_t process = -1;
  const int error = ::posix_spawnp(&process, python.c_str(), &actions, nullptr,
                                   pointers_to(words).data(), pointers_to(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? process : -1;
}

}  // namespace

std::span<const PythonRivalKind> python_rival_kinds() {
  return kKinds;
}

PythonRival::PythonRival(const std::string& python, const PythonRivalKind& kind) : kind_(kind) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
    process_ = start(python, kind, ends[1]);
    ::close(ends[1]);
    socket_ = ends[0];
  }
  const std::string greeting = read_line();
  if (greeting.empty()) {
    problem_ = fmt::format("{} does not start", python);
  } else if (greeting != "ready") {
    problem_ = fmt::format("{}: {}", python, greeting);
  }
}

PythonRival::~PythonRival() {
  if (socket_ >= 0) ::close(socket_);  // the process ends at the end of its input
  if (process_ <= 0) return;
  ::kill(process_, SIGCONT);
  ::waitpid(process_, nullptr, 0);
}

bool PythonRival::prepare(const Job& job, int threads) {
  const std::string_view norm = job.kernel.norm == NormKind::kLayer ? "layer" : "rms";
  const Kernel& kernel = job.kernel;
  return ask(fmt::format("{} {:d} {:d} {:d} {} {} {} {} {}\n", norm, kernel.add, kernel.backward,
                         kernel.in_place, job.shape.rows, job.shape.cols, job.dtype, job.epsilon,
                         threads)) == "ready";
}

double PythonRival::time(std::size_t calls) {
  const std::string answer = ask(fmt::format("{}\n", calls));
  double ms = std::numeric_limits<double>::infinity();
  std::from_chars(answer.data(), answer.data() + answer.size(), ms);
  return ms;
}

bool PythonRival::layer_norm(std::span<float> matrices, std::size_t rows, float epsilon) {
  // An anonymous file in memory, which the process opens through our file descriptors.
  const int file = ::memfd_create("matrices", MFD_CLOEXEC);
  const auto size = static_cast<ssize_t>(matrices.size_bytes());
  const bool done = ::pwrite(file, matrices.data(), matrices.size_bytes(), 0) == size &&
                    ask(fmt::format("layer_norm /proc/{}/fd/{} {} {} {}\n", ::getpid(), file, rows,
                                    matrices.size() / 4 / rows, epsilon)) == "ready" &&
                    ::pread(file, matrices.data(), matrices.size_bytes(), 0) == size;
  ::close(file);
  return done;
}

/// Returns the answer of one line; empty if there is none. The question is sent when our idle
/// threads no longer spin, after some 10 ms. Between questions the process is stopped, because its
/// own threads may spin for long.
std::string PythonRival::ask(std::string_view question) {
  constexpr std::chrono::milliseconds kRest{30};
  if (process_ <= 0) return "";  // kill() with this number would mean other processes
  std::this_thread::sleep_for(kRest);
  ::kill(process_, SIGCONT);
  ::send(socket_, question.data(), question.size(), MSG_NOSIGNAL);
  std::string answer = read_line();
  ::kill(process_, SIGSTOP);
  if (problem_.empty() && (answer.empty() || answer.starts_with("failed"))) {
    problem_ = answer.empty() ? "the process has ended" : answer;
  }
  return answer;
}

std::string PythonRival::read_line() {
  std::string line;
  for (char c = 0; ::read(socket_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

}  // namespace addnorm::bench
