// A Transformer block in float64, written out from the papers one number at a time. The tests
// compare the kernels with it.

export interface Setting {
  placement: string;
  feedForward?: keyof typeof ACTIVATIONS;
  kind?: 'layer' | 'rms';
  causal?: boolean;
}

interface Sizes {
  dModel: number;
  heads: number;
  dFf: number;
  length: number;
  layer: number; // l of L, from 1
  layers: number;
}

type Values = Record<string, Float64Array>;
type Rows = number[][];

/** The positions of the norms, and the constant factors, as in the table of ARCHITECTURE.md. */
const SLOTS: Record<
  string,
  { norms?: string[]; skip?(s: Sizes): number; gain?(s: Sizes): number; before?(s: Sizes): number }
> = {
  none: {},
  plain: { skip: () => 0 },
  post: { norms: ['after'] },
  pre: { norms: ['before'] },
  sandwich: { norms: ['before', 'inside'] },
  reordered: { norms: ['inside'] },
  deepnorm: { norms: ['after'], skip: ({ layers }) => (2 * layers) ** 0.25 },
  rezero: {},
  layerscale: { norms: ['before'] },
  'depth-scaled': { norms: ['before'], before: ({ layer }) => 1 / Math.sqrt(layer) },
  admin: { norms: ['after'] },
  'scaled-branch': { gain: ({ layers }) => 1 / Math.sqrt(layers) },
};

/** Computes y from values.x and the parameters in `values`. */
export function reference(values: Values, sizes: Sizes, setting: Setting): Float64Array {
  const [attentionSlots, feedForwardSlots = attentionSlots] = setting.placement.split('/');
  let rows = split(values.x, sizes.dModel);
  rows = addNorm('attention', attentionSlots, rows, (h) => attention(values, sizes, setting, h));
  rows = addNorm('feed_forward', feedForwardSlots, rows, (h) => feedForward(values, setting, h));
  return Float64Array.from(rows.flat());

  function addNorm(name: string, placement: string, x: Rows, branch: (h: Rows) => Rows): Rows {
    const slots = SLOTS[placement];
    const slot = (place: string, v: Rows, factor = 1) =>
      slots.norms?.includes(place)
        ? norm(values, setting, `${name}_add_norm.${place}`, v, factor)
        : v;
    const factor = (kind: 'skip' | 'gain', i: number) => {
      const learned = values[`${name}_add_norm.${kind}`];
      return learned ? learned[i % learned.length] : (slots[kind]?.(sizes) ?? 1);
    };
    const f = slot('inside', branch(slot('before', x, slots.before?.(sizes))));
    const s = x.map((row, r) =>
      row.map((v, i) => factor('skip', i) * v + factor('gain', i) * f[r][i]),
    );
    return slot('after', s);
  }
}

function norm(
  values: Values,
  { kind = 'layer' }: Setting,
  name: string,
  x: Rows,
  scale: number,
): Rows {
  return x.map((row) => {
    const mean = kind === 'layer' ? sum(row) / row.length : 0;
    const variance = sum(row.map((v) => (v - mean) ** 2)) / row.length;
    const normalized = row.map((v) => (v - mean) / Math.sqrt(variance + 1e-5));
    return normalized.map(
      (v, i) => scale * (values[`${name}.gamma`][i] * v + values[`${name}.beta`][i]),
    );
  });
}

function attention(
  values: Values,
  { heads, length, dModel }: Sizes,
  { causal }: Setting,
  x: Rows,
): Rows {
  const [query, key, value] = ['query', 'key', 'value'].map((name) =>
    linear(values, `attention.${name}`, x),
  );
  const width = dModel / heads;
  const context = x.map((_, r) => {
    const first = r - (r % length);
    const seen = Array.from({ length: causal ? (r % length) + 1 : length }, (_, i) => first + i);
    return Array.from({ length: heads }, (_, head) => {
      const part = (row: number[]) => row.slice(head * width, (head + 1) * width);
      const scores = seen.map((k) => dot(part(query[r]), part(key[k])) / Math.sqrt(width));
      const powers = scores.map((s) => Math.exp(s - Math.max(...scores)));
      return part(value[0]).map((_, i) =>
        sum(seen.map((k, j) => (powers[j] / sum(powers)) * part(value[k])[i])),
      );
    }).flat();
  });
  return linear(values, 'attention.output', context);
}

function feedForward(values: Values, { feedForward: kind = 'gelu' }: Setting, x: Rows): Rows {
  const up = linear(values, 'feed_forward.up', x);
  const gated = kind.endsWith('glu') || kind === 'geglu-tanh';
  const gate = gated ? linear(values, 'feed_forward.gate', x) : up;
  const active = gate.map((row) => row.map((v) => ACTIVATIONS[kind](v)));
  const factor = (v: number) => (kind === 'clamped-swiglu' ? Math.min(Math.max(v, -7), 7) + 1 : v);
  const hidden = gated ? active.map((row, r) => row.map((v, i) => v * factor(up[r][i]))) : active;
  return linear(values, 'feed_forward.down', hidden);
}

const geluTanh = (v: number) =>
  0.5 * v * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3)));

const ACTIVATIONS = {
  relu: (v: number) => Math.max(v, 0),
  gelu: (v: number) => 0.5 * v * (1 + erf(v / Math.SQRT2)),
  'gelu-tanh': geluTanh,
  swiglu: (v: number) => v / (1 + Math.exp(-v)),
  'geglu-tanh': geluTanh,
  'clamped-swiglu': (v: number) => Math.min(v, 7) / (1 + Math.exp(-1.702 * Math.min(v, 7))),
};

/** erf by its series (Abramowitz and Stegun 7.1.5), which is accurate enough for small arguments. */
function erf(v: number): number {
  let [term, total] = [v, v];
  for (let n = 1; n < 200; ++n) {
    term *= -(v * v) / n;
    total += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * total;
}

/** x·Wᵀ + b */
function linear(values: Values, name: string, x: Rows): Rows {
  const weight = split(values[`${name}.weight`], x[0].length);
  return x.map((row) => weight.map((w, i) => dot(row, w) + values[`${name}.bias`][i]));
}

function split(values: Float64Array, width: number): Rows {
  return Array.from({ length: values.length / width }, (_, r) =>
    Array.from(values.subarray(r * width, (r + 1) * width)),
  );
}

function sum(values: number[]): number {
  return values.reduce((total, v) => total + v, 0);
}

function dot(a: number[], b: number[]): number {
  return sum(a.map((v, i) => v * b[i]));
}

/** The largest difference, relative to the largest value or to `scale`. */
export function difference(
  a: ArrayLike<number>,
  b: ArrayLike<number>,
  scale = Math.max(...Array.from(b, Math.abs)),
): number {
  if (a.length !== b.length) return Infinity;
  return Math.max(...Array.from(a, (v, i) => Math.abs(v - b[i]))) / scale;
}
