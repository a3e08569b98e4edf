/* Errors in C: a status and a message. */

#include <stdio.h>

#include "addnorm.h"

int main(void) {
  float x[2 * 4] = {0};
  float y[2 * 4];
  /* docs: error */
  addnorm_norm_options norm = addnorm_norm(ADDNORM_RMS_NORM);
  norm.epsilon = 1e-6;
  const addnorm_add_norm_forward_args args = {.size = sizeof args,
                                              .dtype = ADDNORM_F32,
                                              .rows = 2,
                                              .features = 4,
                                              .norm = &norm,
                                              .add = {.x = x,
                                                      .x_stride = 3}, /* a mistake: rows overlap */
                                              .y = y};
  if (addnorm_add_norm_forward(&args) != ADDNORM_OK) puts(addnorm_last_error());
  /* docs: end */
  return 0;
}
