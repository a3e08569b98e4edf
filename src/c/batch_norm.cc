#include "addnorm.h"
#include "c/call.h"

namespace addnorm::c {
namespace {

template <typename T>
RunningStatistics<T> running_statistics(const addnorm_running_statistics_args& a,
                                        const CallMemory& memory) {
  for (const void* values : {a.mean, a.variance, a.statistics}) {
    require(values != nullptr || a.channels == 0,
            "{}: mean, variance or statistics is NULL, must have {} values", memory.where(),
            a.channels);
  }
  RunningStatistics<T> running{.mean = memory.write<T>("mean", a.mean, a.channels),
                               .variance = memory.write<T>("variance", a.variance, a.channels)};
  running.momentum = static_cast<T>(a.momentum);
  return running;
}

}  // namespace
}  // namespace addnorm::c

using namespace addnorm;
using namespace addnorm::c;

addnorm_status addnorm_update_running_statistics(const addnorm_running_statistics_args* args) {
  return call_with_type(
      "update_running_statistics", args, []<typename T>(const auto& a, const CallMemory& memory) {
        const auto batch = memory.read<NormStatistics<T>>("statistics", a.statistics, a.channels);
        update_running_statistics<T>(norm_options(memory.where(), a.norm), a.count, batch,
                                     running_statistics<T>(a, memory));
      });
}

addnorm_status addnorm_running_to_norm_statistics(const addnorm_running_statistics_args* args) {
  return call_with_type(
      "running_to_norm_statistics", args, []<typename T>(const auto& a, const CallMemory& memory) {
        const auto statistics =
            memory.write<NormStatistics<T>>("statistics", a.statistics, a.channels);
        running_to_norm_statistics<T>(norm_options(memory.where(), a.norm),
                                      running_statistics<T>(a, memory), statistics);
      });
}
