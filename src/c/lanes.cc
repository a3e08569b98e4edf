#include "addnorm/lanes.h"

#include "addnorm.h"
#include "c/call.h"
#include "c/lanes.h"

using namespace addnorm;
using namespace addnorm::c;

addnorm_status addnorm_lanes_forward(const addnorm_lanes_forward_args* args) {
  return call_with_storage("lanes_forward", args,
                           []<typename S, typename B>(const auto& a, const CallMemory& memory) {
                             lanes_forward(read_lanes_call<S, B>(a, memory), a.threads);
                           });
}

addnorm_status addnorm_lanes_backward(const addnorm_lanes_backward_args* args) {
  return call_with_storage("lanes_backward", args,
                           []<typename S, typename B>(const auto& a, const CallMemory& memory) {
                             lanes_backward(read_lanes_call<S, B>(a, memory), a.threads);
                           });
}

size_t addnorm_lanes_workspace(size_t rows, size_t lanes, size_t features) {
  return lanes_workspace(rows, lanes, features);
}
