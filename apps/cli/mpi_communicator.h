#pragma once

#include <memory>

#include "train/communicator.h"

namespace addnorm::cli {

/// Returns MPI's world, from MPI_Init to MPI_Finalize; once in a process. All calls must come from
/// one thread. If MPI itself fails, it ends all processes.
std::unique_ptr<train::Communicator> mpi_communicator();

/// Ends all processes, if there is a world.
void abort_mpi(int status);

}  // namespace addnorm::cli
