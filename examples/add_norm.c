/* Add & Norm of one row with the C interface: s = x + f overwrites x, y = LayerNorm(s). */

#include <stdio.h>

#include "addnorm.h"

int main(void) {
  float x[4] = {1, 2, 3, 4};
  const float f[4] = {0.5F, -1, 2, 0};
  float y[4];
  const addnorm_add_norm_forward_args args = {.size = sizeof args, /* other fields are default */
                                              .rows = 1,
                                              .features = 4,
                                              .add = {.x = x, .branch = f},
                                              .sum = x,
                                              .y = y};
  if (addnorm_add_norm_forward(&args) != ADDNORM_OK) {
    fprintf(stderr, "%s\n", addnorm_last_error());
    return 1;
  }
  printf("s  %6.3f %6.3f %6.3f %6.3f\n", x[0], x[1], x[2], x[3]);
  printf("y  %6.3f %6.3f %6.3f %6.3f\n", y[0], y[1], y[2], y[3]);
  return 0;
}
