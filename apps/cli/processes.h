#pragma once

#include <memory>

#include "cli/command.h"
#include "train/communicator.h"

namespace addnorm::cli {

/// The processes that mpirun has started, of which this is one; null where there is no other. From
/// here on only the first writes to standard output. Throws Error where the program was built
/// without MPI, and each would do all work for itself.
std::unique_ptr<train::Communicator> join_processes();

/// Whether this process is the first, or alone: of what all find, it alone speaks.
bool is_first_process();

/// Returns at once in the first process. The others give it time to report an error that all find,
/// and to end them with it.
void let_first_process_report();

/// Ends all processes where this one has joined others.
void end_processes(ExitStatus status);

/// How many of them are on this machine.
std::size_t processes_here();

}  // namespace addnorm::cli
