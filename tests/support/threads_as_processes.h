#pragma once

#include <omp.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "train/communicator.h"

namespace addnorm::testing {

/// The exchange of data between threads that act as processes: for each operation, each rank's
/// data.
class Meeting {
 public:
  explicit Meeting(std::size_t size) : size_(size) {}

  using Operation = std::pair<int, std::size_t>;  // kind, number among its kind
  using Sent = std::vector<std::vector<std::byte>>;

  std::size_t size() const { return size_; }
  void send(Operation operation, std::size_t rank, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    Sent& sent = sent_[operation];
    sent.resize(size_);
    sent[rank].assign(bytes.begin(), bytes.end());
    arrived_.notify_all();
  }
  bool is_complete(Operation operation) {
    const std::lock_guard lock(mutex_);
    return complete(operation);
  }
  const Sent& wait(Operation operation) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return complete(operation); });
    return sent_[operation];
  }

 private:
  bool complete(Operation operation) {
    const Sent& sent = sent_[operation];
    return !sent.empty() && std::ranges::none_of(sent, [](const auto& s) { return s.empty(); });
  }

  std::size_t size_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Operation, Sent> sent_;
};

/// A thread as a process. Its operations seem complete only now and then, at other times on each
/// rank, as on a network.
class ThreadAsProcess final : public train::Communicator {
 public:
  ThreadAsProcess(Meeting& meeting, std::size_t rank)
      : meeting_(meeting), rank_(rank), chance_(static_cast<unsigned>(rank)) {}

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return meeting_.size(); }
  void gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    const Meeting::Operation operation{0, in_order_++};
    meeting_.send(operation, rank_, mine);
    receive(operation, all, [](std::span<const std::byte> sent) { return sent; });
  }
  void start_exchange(std::size_t slot, std::span<const std::byte> send,
                      std::span<std::byte> receive) override {
    start(slot, {{0, in_order_++}, receive}, send);
  }
  void start_gather(std::size_t slot, std::span<std::byte> all) override {
    start(slot, {{1, gathers_++}, all}, part(all));
  }
  bool is_done(std::size_t slot) override {
    if (!slots_.contains(slot)) return true;
    if (chance_() % 3 > 0 || !meeting_.is_complete(slots_[slot].operation)) return false;
    wait(slot);
    return true;
  }
  void wait(std::size_t slot) override {
    if (!slots_.contains(slot)) return;
    const Started started = slots_[slot];
    slots_.erase(slot);
    receive(started.operation, started.target, [&](std::span<const std::byte> sent) {
      return started.operation.first == 0 ? part(sent) : sent;
    });
  }

 private:
  struct Started {
    Meeting::Operation operation;
    std::span<std::byte> target;
  };

  template <typename Byte>
  std::span<Byte> part(std::span<Byte> all) const {
    return all.subspan(rank_ * (all.size() / size()), all.size() / size());
  }
  void start(std::size_t slot, const Started& started, std::span<const std::byte> bytes) {
    slots_[slot] = started;
    meeting_.send(started.operation, rank_, bytes);
  }
  template <typename Of>
  void receive(Meeting::Operation operation, std::span<std::byte> target, const Of& of) {
    auto to = target.begin();
    for (const auto& sent : meeting_.wait(operation)) to = std::ranges::copy(of(sent), to).out;
  }

  Meeting& meeting_;
  std::size_t rank_;
  std::minstd_rand chance_;
  std::size_t in_order_ = 0;
  std::size_t gathers_ = 0;
  std::map<std::size_t, Started> slots_;
};

/// Calls body(communicator) on `size` threads, one for each rank. Returns all results.
template <typename Body>
auto on_threads(std::size_t size, const Body& body) {
  Meeting meeting(size);
  std::vector<decltype(body(train::one_process()))> results(size);
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      omp_set_num_threads(1);  // more threads would wait for each other
      ThreadAsProcess process(meeting, rank);
      results[rank] = body(process);
    });
  }
  threads.clear();  // waits for them
  return results;
}

}  // namespace addnorm::testing
