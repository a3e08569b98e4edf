// One Transformer block in JavaScript, with initial weights from PyTorch's distributions.

import { load } from 'addnorm';

const d_model = 512;
const n_heads = 8;
const d_ff = 2048;
const [batch, length] = [2, 10];
const causal = false;

const addnorm = await load();
const block = addnorm.block({
  dModel: d_model,
  heads: n_heads,
  dFf: d_ff,
  placement: 'pre',
  feedForward: 'relu',
  // Divides by the unbiased deviation + epsilon. The default, {}, divides by √(variance + 1e-5).
  norm: { epsilon: 1e-6, epsilonAt: 'deviation', variance: 'unbiased' },
});

// Normal random numbers by the Box–Muller transform.
const normal = () =>
  Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
const x = Float32Array.from({ length: batch * length * d_model }, normal);
const y = block.forward(x, { length, causal });

const sizes = Object.values(block.shapes).map(([rows, columns]) => rows * columns);
const difference = y.reduce((sum, v, i) => sum + Math.abs(v - x[i]), 0);

console.log('shape      ', [batch, length, d_model].join(' x '));
console.log('parameters ', sizes.reduce((sum, size) => sum + size));
console.log('mean |y-x| ', (difference / y.length).toFixed(4));
