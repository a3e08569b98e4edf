#include "addnorm.h"
#include "c/call.h"
#include "kernels/instruction_set.h"

const char* addnorm_version() {
  return ADDNORM_VERSION;
}

uint32_t addnorm_version_number() {
  return ADDNORM_VERSION_NUMBER;
}

const char* addnorm_instruction_set() {
  const char* name = nullptr;
  addnorm::c::guarded([&] { name = addnorm::kernels::instruction_set().data(); });
  return name;
}
