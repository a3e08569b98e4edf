// After its first step the training loop allocates nothing, except within oneDNN's products. This
// program's operator new counts allocations.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "addnorm/nn/initialize.h"
#include "train/trainer.h"

namespace {

std::atomic<std::size_t> allocations = 0;

bool is_in_onednn(const void* code) {
  Dl_info info;
  return ::dladdr(code, &info) != 0 && std::strstr(info.dli_fname, "libdnnl") != nullptr;
}

void* allocate(std::size_t size, std::size_t alignment, const void* caller) {
  if (!is_in_onednn(caller)) ++allocations;
  void* memory = nullptr;
  if (::posix_memalign(&memory, alignment, size) != 0) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) {
  return allocate(size, alignof(std::max_align_t), __builtin_return_address(0));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
// It is not inlined: GCC would see memory of new passed to free, and warn.
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}

namespace addnorm::train {
namespace {

/// Returns the number of allocations of each of a few steps.
template <typename T>
std::vector<std::size_t> allocations_of_steps(const char* placement) {
  Decoder<T> decoder({.block = {.d_model = 32, .n_heads = 2, .d_ff = 64, .dropout = 0.1},
                      .placements = parse_placements(placement, 2),
                      .context = 160});
  TorchGenerator generator(0);
  initialize(decoder, Initialization::kTorch, generator);
  const ByteText text(std::string(4000, 'a'), 160);
  Trainer<T> trainer(decoder, text, {.batch = 4, .accumulate = 2, .clip = 1});
  std::vector<std::size_t> counts;
  // A worker of the pool allocates its scratch memory when it first takes part. On a busy machine
  // that may be after the first step.
  for (int step = 0; step < 8; ++step) {
    const std::size_t before = allocations;
    trainer.step();
    counts.push_back(allocations - before);
  }
  return counts;
}

TEST(Trainer, AllocatesNothingAfterItsFirstSteps) {
  for (const char* placement : {"pre", "sandwich", "deepnorm", "rezero"}) {
    const auto f32 = allocations_of_steps<float>(placement);
    const auto bf16 = allocations_of_steps<BFloat16>(placement);
    for (std::size_t step : {5, 6, 7}) {
      EXPECT_EQ(f32[step], 0) << placement << ", step " << step;
      EXPECT_EQ(bf16[step], 0) << placement << ", step " << step;
    }
    EXPECT_GT(f32[0], 0);
  }
}

}  // namespace
}  // namespace addnorm::train
