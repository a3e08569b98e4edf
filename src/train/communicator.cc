#include "train/communicator.h"

#include <algorithm>
#include <numeric>

namespace addnorm::train {
namespace {

class OneProcess final : public Communicator {
 public:
  std::size_t rank() const override { return 0; }
  std::size_t size() const override { return 1; }
  void gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    std::ranges::copy(mine, all.begin());
  }
  void start_exchange(std::size_t, std::span<const std::byte> send,
                      std::span<std::byte> receive) override {
    std::ranges::copy(send, receive.begin());
  }
  void start_gather(std::size_t, std::span<std::byte>) override {}
  bool is_done(std::size_t) override { return true; }
  void wait(std::size_t) override {}
};

}  // namespace

double Communicator::sum(double mine) {
  if (size() == 1) return mine;
  terms_.resize(size());
  gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(terms_)));
  return std::accumulate(terms_.begin(), terms_.end(), 0.0);
}

std::string Communicator::first_text(std::string mine) {
  constexpr std::size_t kLength = 500;
  mine.resize(kLength - 1);
  mine.resize(kLength);  // ends with a zero
  std::string all(kLength * size(), '\0');
  gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  for (std::size_t at = 0; at < all.size(); at += kLength) {
    if (all[at] != '\0') return all.c_str() + at;
  }
  return {};
}

Communicator& one_process() {
  static OneProcess process;
  return process;
}

}  // namespace addnorm::train
