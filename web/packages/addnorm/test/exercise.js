// The computations that the tests run with the packed package. `package` is the imported namespace.

export async function exercise({ load, KernelError }) {
  const addnorm = await load();
  const wave = (n, step) =>
    Float32Array.from({ length: n }, (_, i) => 3 * Math.sin(step * (i + 1)));
  const [x, branch, dy] = [wave(48, 1.1), wave(48, 2.3), wave(48, 0.7)];
  const [gamma, beta] = [wave(8, 0.3), wave(8, 0.9)];

  const forward = addnorm.addNorm(x, branch, { features: 8, gamma, beta });
  const backward = addnorm.addNormBackward(dy, forward.sum, { features: 8, gamma });
  const block = addnorm.block({ dModel: 8, heads: 2, dFf: 16, placement: 'post', seed: 3 });
  const y = block.forward(x, { length: 3, causal: true });
  const { dx, gradients } = block.backward(dy);

  let message = 'nothing was thrown';
  try {
    addnorm.layerNorm(x, { features: 7 });
  } catch (error) {
    if (error instanceof KernelError) message = error.message;
  }
  const result = { x, branch, dy, gamma, beta, forward, backward, message };
  const ofBlock = { parameters: block.parameters(), y, dx, gradients };
  // JSON preserves float32 values but has no typed arrays.
  return JSON.stringify({ ...result, block: ofBlock }, (_, v) =>
    ArrayBuffer.isView(v) ? Array.from(v) : v,
  );
}
