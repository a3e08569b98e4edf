#include "kernels/thread_memory.h"

#include <new>

#include "kernels/placement.h"

namespace addnorm::kernels {
namespace {

constexpr std::align_val_t kAlignment{kPage};

// Not in an object with a destructor: kernels may still be called after that has run, by atexit or
// by the destructor of another library's data of the thread. What is allocated then stays.
thread_local std::byte* memory = nullptr;

struct FreeAtThreadEnd {
  ~FreeAtThreadEnd() {
    ::operator delete(memory, kAlignment);
    memory = nullptr;
  }
};

}  // namespace

std::byte* thread_memory() {
  if (memory == nullptr) {
    memory = static_cast<std::byte*>(::operator new(kThreadMemory, kAlignment));
    static thread_local const FreeAtThreadEnd at_thread_end;
  }
  return memory;
}

}  // namespace addnorm::kernels
