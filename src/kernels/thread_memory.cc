#include "kernels/thread_memory.h"

#include <memory>
#include <new>

#include "kernels/cache.h"

namespace addnorm {
namespace {

constexpr std::align_val_t kAlignment{kPage};

struct Delete {
  void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
};

}  // namespace

std::byte* thread_memory(std::size_t bytes) {
  static thread_local std::unique_ptr<std::byte, Delete> memory;
  static thread_local std::size_t size = 0;
  if (size < bytes) {
    size = 0;
    memory.reset();  // before the larger one is allocated
    memory.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
    size = bytes;
  }
  return memory.get();
}

}  // namespace addnorm
