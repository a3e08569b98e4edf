#include "race/torch_norm.h"

#include <fcntl.h>
#include <fmt/format.h>
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

namespace addnorm {
namespace {

/// Answers each line with one line: a job with "ready", a number of calls with the milliseconds of
/// one of them, a norm of a file's matrices with "ready" when they are there, and what fails with
/// "failed" and why.
constexpr const char* kScript = R"py(
import sys, time

def answer(text):
    print(" ".join(str(text).split()), flush=True)

try:
    import torch
except ImportError as error:
    answer(f"failed: {error}")
    sys.exit()
answer("ready")

def prepare(norm, add, backward, in_place, rows, cols, dtype, threads):
    torch.set_num_threads(int(threads))
    rows, cols = int(rows), int(cols)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[dtype]
    def uniform(*shape):
        return (2 * torch.rand(*shape) - 1).to(dtype)
    x, other, gamma, beta = uniform(rows, cols), uniform(rows, cols), uniform(cols), uniform(cols)

    def layer(s):
        return torch.nn.functional.layer_norm(s, (cols,), gamma, beta, 1e-5)
    def rms(s):
        return s * torch.rsqrt(s.square().mean(-1, keepdim=True) + 1e-5) * gamma
    norm, parameters = {"layer": (layer, (gamma, beta)), "rms": (rms, (gamma,))}[norm]

    plus = torch.Tensor.add_ if in_place == "1" else torch.Tensor.add
    if backward == "0":
        return (lambda: norm(plus(x, other))) if add == "1" else (lambda: norm(x))
    for tensor in (x, *parameters):
        tensor.requires_grad_()
    y, dy = norm(x), uniform(rows, cols)
    def gradients():
        dx, *others = torch.autograd.grad(y, (x, *parameters), dy, retain_graph=True)
        return (plus(other, dx) if add == "1" else dx), *others
    return gradients

def layer_norm(path, rows, cols, epsilon):
    shape = int(rows), int(cols)
    file = torch.from_file(path, shared=True, size=4 * shape[0] * shape[1])
    x, dy, y, dx = file.view(4, *shape)
    s = x.clone().requires_grad_()
    result = torch.nn.functional.layer_norm(s, shape[1:], eps=float(epsilon))
    y.copy_(result.detach())
    dx.copy_(torch.autograd.grad(result, s, dy)[0])

def measure(calls):
    work()  # as every contestant before its time is taken
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return 1e3 * (time.perf_counter() - start) / calls

for line in iter(sys.stdin.readline, ""):
    words = line.split()
    try:
        if len(words) == 1:
            answer(measure(int(words[0])))
        elif words[0] == "layer_norm":
            layer_norm(*words[1:])
            answer("ready")
        else:
            work = None  # frees its tensors
            work = prepare(*words)
            work()
            answer("ready")
    except Exception as error:
        answer(f"failed: {error}")
)py";

/// Ours, and what lets the C library keep all memory that was ever allocated.
std::vector<std::string> environment_of(TorchMemory memory) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("MALLOC_")) variables.emplace_back(*variable);
  }
  if (memory == TorchMemory::kKept) {
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

/// Starts `python` with one end of a socket as its input and output; -1 where it cannot be started.
pid_t start(const std::string& python, TorchMemory memory, int socket) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> words{python, "-c", kScript};
  std::vector<std::string> variables = environment_of(memory);
  pid_t process = -1;
  const int error = ::posix_spawnp(&process, python.c_str(), &actions, nullptr,
                                   pointers_to(words).data(), pointers_to(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? process : -1;
}

}  // namespace

TorchNorm::TorchNorm(const std::string& python, TorchMemory memory) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
    process_ = start(python, memory, ends[1]);
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

TorchNorm::~TorchNorm() {
  if (socket_ >= 0) ::close(socket_);  // at the end of its input it ends
  if (process_ > 0) ::waitpid(process_, nullptr, 0);
}

bool TorchNorm::prepare(const RaceJob& job, int threads) {
  const std::string_view norm = job.kernel.norm == NormKind::kLayer ? "layer" : "rms";
  const RaceKernel& kernel = job.kernel;
  return ask(fmt::format("{} {:d} {:d} {:d} {} {} {} {}\n", norm, kernel.add, kernel.backward,
                         kernel.in_place, job.shape.rows, job.shape.cols, job.dtype, threads)) ==
         "ready";
}

double TorchNorm::time(std::size_t calls) {
  const std::string answer = ask(fmt::format("{}\n", calls));
  double ms = std::numeric_limits<double>::infinity();
  std::from_chars(answer.data(), answer.data() + answer.size(), ms);
  return ms;
}

bool TorchNorm::layer_norm(std::span<float> matrices, std::size_t rows, float epsilon) {
  // A file in memory, which the process finds among ours.
  const int file = ::memfd_create("matrices", MFD_CLOEXEC);
  const auto size = static_cast<ssize_t>(matrices.size_bytes());
  const bool done = ::pwrite(file, matrices.data(), matrices.size_bytes(), 0) == size &&
                    ask(fmt::format("layer_norm /proc/{}/fd/{} {} {} {}\n", ::getpid(), file, rows,
                                    matrices.size() / 4 / rows, epsilon)) == "ready" &&
                    ::pread(file, matrices.data(), matrices.size_bytes(), 0) == size;
  ::close(file);
  return done;
}

/// The answer in one line; empty where there is none. PyTorch's turn begins when our idle threads
/// no longer spin, and ends when its own do not: both take some 10 ms.
std::string TorchNorm::ask(std::string_view question) {
  constexpr std::chrono::milliseconds kRest{30};
  std::this_thread::sleep_for(kRest);
  ::send(socket_, question.data(), question.size(), MSG_NOSIGNAL);
  std::string answer = read_line();
  std::this_thread::sleep_for(kRest);
  if (problem_.empty() && (answer.empty() || answer.starts_with("failed"))) {
    problem_ = answer.empty() ? "the process has ended" : answer;
  }
  return answer;
}

std::string TorchNorm::read_line() {
  std::string line;
  for (char c = 0; ::read(socket_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

}  // namespace addnorm
