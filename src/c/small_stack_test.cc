/// Every function of the C interface runs on a thread with a small stack, as runtimes and engines
/// create them, and writes nothing below it.

#include <gtest/gtest.h>
#include <omp.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "addnorm.h"
#include "kernels/aliasing.h"
#include "kernels/instruction_set.h"
#include "kernels/machine.h"
#include "support/caches.h"
#include "support/instruction_sets.h"
#include "support/long_tests.h"

namespace addnorm {
namespace {

/// A stack with a guard page below it, and protected memory below that: a frame larger than the
/// guard page could skip it.
class SmallStack {
 public:
  explicit SmallStack(std::size_t size)
      : size_(size),
        memory_(static_cast<unsigned char*>(mmap(nullptr, kBelow + kernels::kPage + size,
                                                 PROT_READ | PROT_WRITE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (memory_ == MAP_FAILED) std::abort();
    std::memset(memory_, kUntouched, kBelow);
    if (mprotect(memory_ + kBelow, kernels::kPage, PROT_NONE) != 0) std::abort();
  }
  ~SmallStack() { munmap(memory_, kBelow + kernels::kPage + size_); }
  SmallStack(const SmallStack&) = delete;
  SmallStack& operator=(const SmallStack&) = delete;

  /// Calls body() on a thread that has this stack.
  void run(const std::function<void()>& body) const {
    const auto call = [](void* argument) -> void* {
      (*static_cast<const std::function<void()>*>(argument))();
      return nullptr;
    };
    pthread_attr_t attributes;
    pthread_t thread;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstack(&attributes, memory_ + kBelow + kernels::kPage, size_), 0);
    ASSERT_EQ(pthread_create(&thread, &attributes, call, const_cast<std::function<void()>*>(&body)),
              0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    EXPECT_TRUE(std::all_of(memory_, memory_ + kBelow, [](unsigned char byte) {
      return byte == kUntouched;
    })) << "memory below the stack was written";
  }

 private:
  static constexpr std::size_t kBelow = std::size_t{512} << 10;
  static constexpr unsigned char kUntouched = 0xA5;

  std::size_t size_;
  unsigned char* memory_;
};

/// Memory for values of any type, at most 8 bytes each. They differ but have one magnitude. The
/// squares of the first `huge` values overflow in float32, so their rows take the slow path.
class Values {
 public:
  explicit Values(std::size_t count, std::size_t huge = 0) : bytes_(8 * (count + kLine)) {
    std::uint32_t random = 1;
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      random = random * 1664525 + 1013904223;
      const bool is_upper = i % 2 == 1;  // upper part of 2, 4 or 8 bytes: sign and exponent
      bytes_[i] =
          is_upper ? (i < 2 * huge ? 0x6C : 0x3C) : static_cast<unsigned char>(random >> 24);
    }
  }
  /// Returns an address at the beginning of a cache line, which non-temporal stores need.
  void* data() {
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return bytes_.data() + (64 - begin % 64) % 64;
  }

 private:
  static constexpr std::size_t kLine = 8;
  std::vector<unsigned char> bytes_;
};

/// Arrays for all functions and types, with one row that takes the slow path.
struct Arrays {
  Arrays(std::size_t row_count, std::size_t feature_count)
      : rows(row_count),
        features(feature_count),
        x(rows * features, features),
        branch(rows * features),
        sum(rows * features),
        y(rows * features),
        d(rows * features),
        dx(rows * features),
        d_branch(rows * features),
        gamma(features),
        beta(features),
        d_gamma(features),
        d_beta(features),
        statistics(6 * rows * features),
        workspace(workspace_size()) {}

  std::size_t workspace_size() const {
    return std::max({addnorm_add_norm_workspace(rows, features), 4 * rows * features + 64,
                     addnorm_lanes_workspace(rows, 4, features)});
  }

  std::size_t rows, features;
  Values x, branch, sum, y, d, dx, d_branch, gamma, beta, d_gamma, d_beta, statistics, workspace;
};

void expect_ok(addnorm_status status) {
  EXPECT_EQ(status, ADDNORM_OK) << addnorm_last_error();
}

void call_row_functions(Arrays& a, std::int32_t dtype) {
  addnorm_residual_add_args add{.size = sizeof add, .dtype = dtype, .rows = a.rows};
  add.features = a.features;
  add.add.x = a.x.data(), add.add.branch = a.branch.data(), add.sum = a.sum.data();
  add.add.skip = a.gamma.data(), add.add.skip_count = a.features;
  add.add.gain = a.beta.data(), add.add.gain_count = a.features;
  add.add.dropout_probability = 0.25;
  expect_ok(addnorm_residual_add(&add));

  addnorm_residual_add_backward_args add_backward{.size = sizeof add_backward, .dtype = dtype};
  add_backward.rows = a.rows, add_backward.features = a.features;
  add_backward.add.x = a.x.data(), add_backward.add.branch = a.branch.data();
  add_backward.d_sum = a.d.data(), add_backward.d_branch = a.d_branch.data();
  add_backward.d_skip = a.d_gamma.data(), add_backward.d_skip_count = a.features;
  add_backward.d_gain = a.d_beta.data(), add_backward.d_gain_count = a.features;
  expect_ok(addnorm_residual_add_backward(&add_backward));

  for (const bool keeps_sum : {false, true}) {
    for (const addnorm_norm_kind kind : {ADDNORM_LAYER_NORM, ADDNORM_RMS_NORM}) {
      const addnorm_norm_options norm = addnorm_norm(kind);
      addnorm_add_norm_forward_args forward{.size = sizeof forward, .dtype = dtype};
      forward.rows = a.rows, forward.features = a.features, forward.norm = &norm;
      forward.add.x = a.x.data(), forward.add.branch = a.branch.data();
      forward.sum = keeps_sum ? a.sum.data() : nullptr;
      forward.gamma = a.gamma.data();
      forward.beta = kind == ADDNORM_LAYER_NORM ? a.beta.data() : nullptr;
      forward.y = a.y.data(), forward.statistics = a.statistics.data();
      forward.add.dropout_probability = keeps_sum ? 0 : 0.25;
      expect_ok(addnorm_add_norm_forward(&forward));

      addnorm_add_norm_backward_args backward{.size = sizeof backward, .dtype = dtype};
      backward.rows = a.rows, backward.features = a.features, backward.norm = &norm;
      backward.s = a.sum.data(), backward.statistics = a.statistics.data();
      backward.gamma = a.gamma.data(), backward.dy = a.branch.data();
      backward.d_residual = a.d.data(), backward.dx = a.dx.data();
      backward.d_gamma = a.d_gamma.data();
      backward.d_beta = kind == ADDNORM_LAYER_NORM ? a.d_beta.data() : nullptr;
      backward.workspace = a.workspace.data(), backward.workspace_size = a.workspace_size();
      expect_ok(addnorm_add_norm_backward(&backward));
    }
  }
}

void call_channel_functions(Arrays& a, std::int32_t dtype) {
  for (const addnorm_norm_kind kind :
       {ADDNORM_BATCH_NORM, ADDNORM_INSTANCE_NORM, ADDNORM_GROUP_NORM}) {
    const addnorm_norm_options norm = addnorm_norm(kind);
    std::size_t sets = 0, workspace = 0;
    expect_ok(addnorm_norm_sizes(&norm, a.rows, a.features, 1, &sets, &workspace));
    ASSERT_LE(sets, a.rows * a.features);
    ASSERT_LE(workspace, a.workspace_size());
    addnorm_add_norm_forward_args forward{.size = sizeof forward, .dtype = dtype};
    forward.rows = a.rows, forward.features = a.features, forward.norm = &norm;
    forward.add.x = a.branch.data(), forward.gamma = a.gamma.data();
    forward.beta = a.beta.data(), forward.y = a.y.data();
    forward.statistics = a.statistics.data();
    forward.workspace = a.workspace.data(), forward.workspace_size = a.workspace_size();
    addnorm_add_norm_backward_args backward{.size = sizeof backward, .dtype = dtype};
    backward.rows = a.rows, backward.features = a.features, backward.norm = &norm;
    backward.s = a.branch.data(), backward.statistics = a.statistics.data();
    backward.gamma = a.gamma.data(), backward.dy = a.d.data(), backward.dx = a.dx.data();
    backward.d_gamma = a.d_gamma.data(), backward.d_beta = a.d_beta.data();
    backward.workspace = a.workspace.data(), backward.workspace_size = a.workspace_size();
    expect_ok(addnorm_add_norm_forward(&forward));
    expect_ok(addnorm_add_norm_backward(&backward));
    if (kind != ADDNORM_BATCH_NORM) continue;
    addnorm_running_statistics_args running{.size = sizeof running, .dtype = dtype};
    running.channels = a.features, running.norm = &norm, running.count = 2;
    running.mean = a.d_gamma.data(), running.variance = a.gamma.data();
    running.statistics = a.statistics.data();
    expect_ok(addnorm_update_running_statistics(&running));
    expect_ok(addnorm_running_to_norm_statistics(&running));
    forward.statistics_from = backward.statistics_from = ADDNORM_STATISTICS_GIVEN;
    expect_ok(addnorm_add_norm_forward(&forward));
    expect_ok(addnorm_add_norm_backward(&backward));
  }
}

/// Calls the functions with numbers of lanes that have specialized loops, and with others, in the
/// memory of as many rows.
void call_lane_functions(Arrays& a, std::int32_t dtype) {
  for (const std::size_t lanes : {3, 4}) {
    const addnorm_norm_options norm = addnorm_norm(ADDNORM_LAYER_NORM);
    const addnorm_lanes mix = {.lanes = lanes,
                               .x = a.x.data(),
                               .branch = a.branch.data(),
                               .carry = a.d.data(),
                               .write = a.d.data(),
                               .read = a.d.data(),
                               .dropout_probability = lanes == 3 ? 0.25 : 0};
    addnorm_lanes_forward_args forward{.size = sizeof forward, .dtype = dtype};
    forward.rows = a.rows / lanes, forward.features = a.features, forward.mix = mix;
    forward.sum = a.sum.data(), forward.y = a.y.data(), forward.norm = &norm;
    forward.gamma = a.gamma.data(), forward.beta = a.beta.data();
    forward.statistics = a.statistics.data();
    expect_ok(addnorm_lanes_forward(&forward));

    addnorm_lanes_backward_args backward{.size = sizeof backward, .dtype = dtype};
    backward.rows = forward.rows, backward.features = a.features, backward.mix = mix;
    backward.norm = &norm, backward.gamma = a.gamma.data();
    backward.statistics = a.statistics.data();
    backward.d_sum = a.d.data(), backward.dy = a.branch.data();
    backward.dx = a.dx.data(), backward.d_branch = a.d_branch.data();
    backward.d_carry = a.y.data(), backward.d_write = a.sum.data();
    backward.d_gamma = a.d_gamma.data(), backward.d_beta = a.d_beta.data();
    backward.workspace = a.workspace.data(), backward.workspace_size = a.workspace_size();
    expect_ok(addnorm_lanes_backward(&backward));
  }
}

void call_error_functions() {
  addnorm_add_norm_forward_args args{.size = sizeof args, .dtype = 99};
  EXPECT_EQ(addnorm_add_norm_forward(&args), ADDNORM_INVALID_ARGUMENT);  // through an exception
  EXPECT_STRNE(addnorm_last_error(), "");
  EXPECT_STRNE(addnorm_version(), "");
  EXPECT_GT(addnorm_version_number(), 0u);
  EXPECT_NE(addnorm_instruction_set(), nullptr);
}

void call_all(Arrays& arrays) {
  for (std::int32_t dtype = ADDNORM_F32; dtype <= ADDNORM_F32_F16; ++dtype) {
    call_row_functions(arrays, dtype);
    call_lane_functions(arrays, dtype);
  }
  for (const std::int32_t dtype : {ADDNORM_F32, ADDNORM_F64}) {
    call_channel_functions(arrays, dtype);
  }
  call_error_functions();
}

#ifdef __SANITIZE_ADDRESS__  // its frames are larger, because of the gaps between variables
constexpr std::size_t kSmallest = std::size_t{1024} << 10;
#else
constexpr std::size_t kSmallest = std::size_t{64} << 10;
#endif

class SmallStackTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  ~SmallStackTest() override {
    kernels::use_instruction_set(own_instruction_set_);
    kernels::use_this_machine();
  }

  const std::string own_instruction_set_{kernels::instruction_set()};
};

/// Returns enough rows for groups and a remainder.
std::size_t rows_of(std::size_t features) {
  return features <= 256 ? 40 : features <= 8192 ? 9 : 3;
}

TEST_P(SmallStackTest, HoldsEveryFunctionAtEveryWidth) {
  const SmallStack stack(GetParam());
  const bool is_smallest = GetParam() == kSmallest;
  if (!is_smallest) ADDNORM_LONG_TEST();
  for (const std::size_t features :
       {1, 7, 32, 64, 255, 256, 768, 2048, 8192, 16384, 16385, 65536}) {
    Arrays arrays(rows_of(features), features);
    for (const std::string& name : testing::all_instruction_sets()) {
      if (!is_smallest && name != kernels::instruction_set()) continue;
      kernels::use_instruction_set(name);
      for (const std::size_t last_cache : {std::size_t{1}, std::size_t{1} << 40}) {
        SCOPED_TRACE(name + ", features " + std::to_string(features));
        testing::use_caches(last_cache);  // plans for memory, and for the caches
        stack.run([&] {
          // for the calls of this thread
          omp_set_num_threads(name == own_instruction_set_ ? 2 : 1);
          call_all(arrays);
        });
      }
    }
    kernels::use_instruction_set(own_instruction_set_);
  }
}

INSTANTIATE_TEST_SUITE_P(Bytes, SmallStackTest,
                         ::testing::Values(kSmallest, 2 * kSmallest, 4 * kSmallest));

/// A library's thread data may be destroyed after ours, and then call us.
TEST(ThreadMemory, IsThereAfterTheThreadsDestructorsHaveRun) {
  static addnorm_status last_status = ADDNORM_INTERNAL_ERROR;
  const auto call = [](void*) {
    Arrays arrays(4, 768);
    addnorm_add_norm_forward_args args{.size = sizeof args, .rows = 4, .features = 768};
    args.add.x = arrays.x.data(), args.add.branch = arrays.branch.data(), args.y = arrays.y.data();
    args.gamma = arrays.gamma.data(), args.beta = arrays.beta.data();
    last_status = addnorm_add_norm_forward(&args);
  };
  pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key, call), 0);  // its destructor runs after those of thread_local
  SmallStack(kSmallest).run([&] {
    call(nullptr);
    pthread_setspecific(key, &key);
    last_status = ADDNORM_INTERNAL_ERROR;
  });
  EXPECT_EQ(last_status, ADDNORM_OK);
  pthread_key_delete(key);
}

}  // namespace
}  // namespace addnorm
