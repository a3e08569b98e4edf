/* The C code that README.md shows. */

#include <stdio.h>

#include "addnorm.h"

enum { rows = 2, features = 4 };

int main(void) {
  float x[rows * features] = {1, 2, 3, 4, 4, 3, 2, 1};
  const float f[rows * features] = {0}, gamma[features] = {1, 1, 1, 1}, beta[features] = {0};
  float h[rows * features];

  /* x += f, h = LayerNorm(x) */
  addnorm_status status =
      addnorm_add_layer_norm(rows, features, x, f, gamma, beta, 1e-5, x, h, NULL);
  if (status != ADDNORM_OK) puts(addnorm_last_error());

  printf("%.1f %.3f\n", x[4], h[4]);
  return 0;
}
