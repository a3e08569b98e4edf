#include "cli/mpi_communicator.h"

#include <mpi.h>

#include <exception>
#include <limits>
#include <vector>

#include "base/require.h"

namespace addnorm::cli {
namespace {

int count_of(std::size_t bytes) {
  require(bytes <= std::numeric_limits<int>::max(),
          "MPI: {} bytes for one process at once are too many; more processes share them", bytes);
  return static_cast<int>(bytes);
}

class MpiCommunicator final : public train::Communicator {
 public:
  MpiCommunicator() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm_dup(MPI_COMM_WORLD, &gathers_);  // gathers have a separate order
  }
  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() > 0) return;  // the other processes have not ended: abort_mpi()
    MPI_Comm_free(&gathers_);
    MPI_Finalize();
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  std::size_t rank() const override { return static_cast<std::size_t>(rank_); }
  std::size_t size() const override { return static_cast<std::size_t>(size_); }

  void gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    const int count = count_of(mine.size());
    MPI_Allgather(mine.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, MPI_COMM_WORLD);
  }
  void start_exchange(std::size_t slot, std::span<const std::byte> send,
                      std::span<std::byte> receive) override {
    const int count = count_of(send.size() / size());
    MPI_Ialltoall(send.data(), count, MPI_BYTE, receive.data(), count, MPI_BYTE, MPI_COMM_WORLD,
                  &request(slot));
  }
  void start_gather(std::size_t slot, std::span<std::byte> all) override {
    MPI_Iallgather(MPI_IN_PLACE, 0, MPI_BYTE, all.data(), count_of(all.size() / size()), MPI_BYTE,
                   gathers_, &request(slot));
  }
  bool is_done(std::size_t slot) override {
    int done = 0;
    MPI_Test(&request(slot), &done, MPI_STATUS_IGNORE);
    return done != 0;
  }
  void wait(std::size_t slot) override { MPI_Wait(&request(slot), MPI_STATUS_IGNORE); }

 private:
  MPI_Request& request(std::size_t slot) {
    if (slot >= requests_.size()) requests_.resize(slot + 1, MPI_REQUEST_NULL);
    return requests_[slot];
  }

  int rank_ = 0;
  int size_ = 1;
  MPI_Comm gathers_ = MPI_COMM_NULL;
  std::vector<MPI_Request> requests_;
};

}  // namespace

std::unique_ptr<train::Communicator> mpi_communicator() {
  return std::make_unique<MpiCommunicator>();
}

void abort_mpi(int status) {
  int is_begun = 0;
  int is_over = 0;
  MPI_Initialized(&is_begun);
  MPI_Finalized(&is_over);
  if (is_begun != 0 && is_over == 0) MPI_Abort(MPI_COMM_WORLD, status);
}

}  // namespace addnorm::cli
