#include "kernels/thread_memory.h"

#include <new>

#include "kernels/aliasing.h"

namespace addnorm::kernels {
namespace {

constexpr std::align_val_t kAlignment{kPage};

// A plain pointer without a destructor, because kernels may run after destructors: in atexit, or in
// the destructor of another library's thread data. Memory that is allocated so late is not freed.
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
