#pragma once

#include <memory>

#include "cli/command.h"
#include "train/communicator.h"

namespace addnorm::cli {

/// Joins the processes that mpirun started, including this one; returns null if there is no other.
/// From here on only the first process writes to standard output. Throws an Error in a build
/// without MPI, where each process would do all the work.
std::unique_ptr<train::Communicator> join_processes();

/// Whether this process is the first, or the only one, which reports for all.
bool is_first_process();

/// Returns at once in the first process. In the others it waits, so that the first process can
/// report an error that all have, and end them.
void let_first_process_report();

/// Ends all processes if this one has joined others.
void end_processes(ExitStatus status);

/// Returns the number of processes on this machine.
std::size_t processes_here();

}  // namespace addnorm::cli
