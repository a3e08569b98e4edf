#include "cli/processes.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/require.h"
#ifdef ADDNORM_MPI
#include "cli/mpi_communicator.h"
#endif

namespace addnorm::cli {
namespace {

/// Returns a number that Open MPI's mpirun sets in the environment; 0 without mpirun.
int from_mpirun(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? 0 : std::atoi(value);
}

}  // namespace

std::unique_ptr<train::Communicator> join_processes() {
  const int size = from_mpirun("OMPI_COMM_WORLD_SIZE");
  if (size < 2) return nullptr;
#ifdef ADDNORM_MPI
  auto communicator = mpi_communicator();
  if (communicator->rank() > 0) {
    require(std::freopen("/dev/null", "w", stdout) != nullptr, "/dev/null: cannot be opened");
  }
  return communicator;
#else
  fail(fmt::format(
      "mpirun has started {} processes, but this program is built without MPI, so that each would "
      "train a model of its own; `make mpi` builds build/mpi/bin/addnorm",
      size));
#endif
}

std::size_t processes_here() {
  return static_cast<std::size_t>(std::max(1, from_mpirun("OMPI_COMM_WORLD_LOCAL_SIZE")));
}

bool is_first_process() {
  return from_mpirun("OMPI_COMM_WORLD_RANK") == 0;
}

void let_first_process_report() {
  using namespace std::chrono_literals;
  if (!is_first_process()) std::this_thread::sleep_for(3s);  // mpirun takes one second
}

void end_processes([[maybe_unused]] ExitStatus status) {
#ifdef ADDNORM_MPI
  abort_mpi(status);
#endif
}

}  // namespace addnorm::cli
