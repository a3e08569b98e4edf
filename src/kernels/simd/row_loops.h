/// The loops over rows of forward and backward.

#pragma once

#include "kernels/plan.h"
#include "kernels/simd/residual.h"
#include "kernels/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

// For loops over packs that each hold a row. Unrolling keeps the packs in registers; if there are
// too few registers, the packs stay in L1.
#undef ADDNORM_EACH_ROW
#if HWY_TARGET == HWY_AVX3  // kMasks
#define ADDNORM_EACH_ROW ADDNORM_UNROLL
#else
#define ADDNORM_EACH_ROW ADDNORM_NO_UNROLL
#endif

/// The compile-time flags of a loop. A flag that is true makes the loop more general, so
/// LoopMode<true, true, true> handles every call.
template <bool kCentredNorm, bool kMemory, bool kAllOptions>
struct LoopMode {
  /// If false, the norm is RMSNorm, without β or its gradient.
  static constexpr bool kCentred = kCentredNorm;
  /// If false, the loop does not prefetch and has cached stores.
  static constexpr bool kFromMemory = kMemory;
  /// If false, skip and gain are 1, there is no dropout, and in backward every row has scale 1.
  static constexpr bool kOptions = kAllOptions;
};

/// The steps of a Direction, ForwardLoops or BackwardLoops, compiled for one mode. A step processes
/// a group of up to four rows; `read` and `write` process one block of kBlock columns. After the
/// last `read`, `finish` converts the sums to the numbers that `write` needs.
template <typename Direction>
struct RowSteps {
  using Rows = typename Direction::Rows;

  void (Direction::*start)(Rows&) const;                     ///< before the first block is read
  void (Direction::*read)(Rows&, std::size_t column) const;  ///< loads a block, and sums it
  void (Direction::*finish)(Rows&) const;                    ///< after the last block
  /// Loads a block again, of the rows from index `first` on, and stores the results.
  void (Direction::*write)(const Rows&, std::size_t column, std::size_t first) const;
  /// Reads a block of some rows, and writes the same block of `before`. Null if it is not compiled
  /// for this mode.
  void (Direction::*read_and_write)(Rows&, const Rows& before, std::size_t column) const;
};

/// Returns the steps of the most specialized mode that is compiled for a direction. Out of cache,
/// RMSNorm has no separate mode: memory bandwidth limits it.
template <typename Direction>
RowSteps<Direction> choose_steps(bool plain, bool from_memory, bool centred) {
  if constexpr (Direction::kHasFastLoops) {
    if (plain && from_memory) return Direction::template steps<LoopMode<true, true, false>>();
    if (plain && centred) return Direction::template steps<LoopMode<true, false, false>>();
    if (plain) return Direction::template steps<LoopMode<false, false, false>>();
  }
  return Direction::template steps<LoopMode<true, true, true>>();
}

/// Processes rows in registers, eight at a time, if their width has such a loop. Returns the first
/// row that was not processed.
template <typename Direction>
std::size_t in_registers(const Direction& direction, std::size_t begin, std::size_t end) {
  switch (direction.cols) {
    case 8:
      return direction.template registers<8>(begin, end);
    case 16:
      return direction.template registers<16>(begin, end);
    case 32:
      return direction.template registers<32>(begin, end);
    case 64:
      if constexpr (register_features(Direction::kStreamBytes) == 64) {
        return direction.template registers<64>(begin, end);
      }
      return begin;
    default:
      return begin;
  }
}

/// The loops over rows that run a direction's steps.
template <typename Direction>
class RowLoops {
 public:
  using Rows = typename Direction::Rows;

  RowLoops(const Direction& direction, const RowSteps<Direction>& steps)
      : direction_(direction), steps_(steps), plan_(direction.plan), cols_(direction.cols) {}

  void run(std::size_t begin, std::size_t end) const {
    if (plan_.loop == Loop::kPipelined && steps_.read_and_write != nullptr) {
      pipelined(begin, end);
    } else if (plan_.software_pipelined &&
               direction_.rows_that_fit(2 * kRowGroup) == 2 * kRowGroup) {
      software_pipelined(begin, end);
    } else {
      two_pass(begin, end);
    }
  }

  /// Reads groups of rows, and calls use(rows) for each group instead of writing it.
  template <typename Use>
  void read_groups(std::size_t begin, std::size_t end, const Use& use) const {
    constexpr std::size_t kGroupBytes = 16384;  // half of a small L1
    const std::size_t in_l1 = kGroupBytes / (cols_ * Direction::kStreamBytes);
    const std::size_t most =
        direction_.rows_that_fit(HWY_MAX(std::size_t{1}, HWY_MIN(kRowGroup, in_l1)));
    Rows rows;
    for (; begin < end; begin += rows.count) {
      read(rows, begin, HWY_MIN(most, end - begin), 0);
      use(rows);
    }
  }

  /// Reads `count` rows, beginning with `first`. If `before` is given, the same loop writes its
  /// rows.
  void read(Rows& rows, std::size_t first, std::size_t count, std::size_t slot,
            const Rows* before = nullptr) const {
    start(rows, first, count, slot);
    read_blocks(rows, before);
    (direction_.*steps_.finish)(rows);
  }

 private:
  void write(const Rows& rows, std::size_t from, std::size_t to) const {
    for (std::size_t column = from; column < to; column += kBlock) {
      (direction_.*steps_.write)(rows, column, 0);
    }
  }
  void start(Rows& rows, std::size_t first, std::size_t count, std::size_t slot) const {
    rows.first = first;
    rows.count = count;
    rows.slot = slot;
    (direction_.*steps_.start)(rows);
  }
  void read_blocks(Rows& rows, const Rows* before) const {
    for (std::size_t column = 0; column < cols_; column += kBlock) {
      if (before == nullptr) {
        (direction_.*steps_.read)(rows, column);
      } else {
        (direction_.*steps_.read_and_write)(rows, *before, column);
      }
      rows.add_block(column + kBlock);
    }
  }

  /// Reads up to eight rows one after the other, then writes them from L1 or L2 in tiles of
  /// columns. γ and β of a tile come from L1 for all rows except the first.
  void two_pass(std::size_t begin, std::size_t end) const {
    constexpr std::size_t kMost = 2 * kRowGroup;
    Rows groups[kMost / kRowGroup];
    const std::size_t most = direction_.rows_that_fit(HWY_MIN(kMost, plan_.rows));
    for (std::size_t rows; begin < end; begin += rows) {
      rows = HWY_MIN(most, end - begin);
      for (std::size_t r = 0; r < rows; r += kRowGroup) {
        read(groups[r / kRowGroup], begin + r, HWY_MIN(kRowGroup, rows - r), r);
      }
      for (std::size_t tile = 0; tile < cols_; tile += plan_.tile) {
        for (std::size_t r = 0; r < rows; r += kRowGroup) {
          write(groups[r / kRowGroup], tile, HWY_MIN(cols_, tile + plan_.tile));
        }
      }
    }
  }

  /// Reads groups of four rows. A group is written, from L1, only after the next group was read and
  /// the one after that was started. This hides the latency of sums and statistics.
  void software_pipelined(std::size_t begin, std::size_t end) const {
    Rows groups[3];
    Rows *before = &groups[0], *now = &groups[1], *next = &groups[2];
    const auto start_group = [&](Rows& rows, std::size_t r) {
      start(rows, r, HWY_MIN(kRowGroup, end - r), (r - begin) % (2 * kRowGroup));
    };
    start_group(*now, begin);
    for (std::size_t r = begin; r < end; r += kRowGroup) {
      read_blocks(*now, nullptr);
      if (r + kRowGroup < end) start_group(*next, r + kRowGroup);
      (direction_.*steps_.finish)(*now);
      if (r > begin) write(*before, 0, cols_);
      Rows* const free = before;
      before = now, now = next, next = free;
    }
    write(*before, 0, cols_);
  }

  /// Each loop writes some rows and reads the next ones, so that memory is always busy.
  void pipelined(std::size_t begin, std::size_t end) const {
    Rows groups[2];
    const Rows* before = nullptr;  // rows that are still to be written
    const std::size_t most = direction_.rows_that_fit(HWY_MIN(kRowGroup, plan_.rows));
    for (std::size_t r = begin, index = 0; r < end; r += most, index ^= 1) {
      Rows& rows = groups[index];
      read(rows, r, HWY_MIN(most, end - r), 0, before);
      const bool written_later = !rows.scaled && r + most < end;
      if (!written_later) write(rows, 0, cols_);
      before = written_later ? &rows : nullptr;
    }
  }

  const Direction& direction_;
  const RowSteps<Direction> steps_;
  const Plan& plan_;
  const std::size_t cols_;
};

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
