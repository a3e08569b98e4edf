// The steps of a Transformer block, their output shapes and their parameters.

import { t } from '../../language/text';
import { grouped } from '../../ui/numbers';

export type BlockNorm = 'pre' | 'post';
export type Activation = 'relu' | 'gelu';

export const ACTIVATION_NAMES: Record<Activation, string> = { relu: 'ReLU', gelu: 'GELU' };

export interface BlockSizes {
  dModel: number;
  heads: number;
  dFf: number;
}

export interface Part {
  id: 'attention' | 'feed-forward' | 'norms';
  name: string;
  formula: string; // in TeX
  arithmetic: string;
  parameters: number;
}

/** The parameters, part by part: weights and biases, γ and β. */
export function partsOf({ dModel: d, dFf }: BlockSizes): Part[] {
  const [D, F] = [grouped(d), grouped(dFf)];
  return [
    {
      id: 'attention',
      name: t`Attention: query, key, value, output`,
      formula: '4\\,(d^2 + d)',
      arithmetic: `4 · (${D}² + ${D})`,
      parameters: 4 * (d * d + d),
    },
    {
      id: 'feed-forward',
      name: t`Feed-forward: up, down`,
      formula: '2\\,d\\,d_{ff} + d_{ff} + d',
      arithmetic: `2 · ${D} · ${F} + ${F} + ${D}`,
      parameters: 2 * d * dFf + dFf + d,
    },
    {
      id: 'norms',
      name: t`Two norms: γ and β each`,
      formula: '2 \\cdot 2\\,d',
      arithmetic: `2 · 2 · ${D}`,
      parameters: 4 * d,
    },
  ];
}

export function blockParameters(sizes: BlockSizes): number {
  return partsOf(sizes).reduce((sum, part) => sum + part.parameters, 0);
}

export interface Step {
  kind: 'norm' | 'branch' | 'sum';
  name: string;
  shape: string; // the shape of its output
  parameters: number;
}

/** The two halves of a block: the steps of the sublayer, the residual sum, and the norm. */
export function stepsOf(
  sizes: BlockSizes,
  placement: BlockNorm,
  causal = false,
  activation: Activation = 'relu',
): [Step[], Step[]] {
  const { dModel: d, dFf, heads } = sizes;
  const ofHead = headSize(sizes);
  const stream = `B × T × ${grouped(d)}`;
  const hidden = `B × T × ${grouped(dFf)}`;
  const weights = `B × ${heads} × T × T`;
  const branch = (name: string, shape: string, parameters = 0): Step => ({
    kind: 'branch',
    name,
    shape,
    parameters,
  });
  const norm: Step = { kind: 'norm', name: 'LayerNorm', shape: stream, parameters: 2 * d };
  const sum: Step = { kind: 'sum', name: '+', shape: stream, parameters: 0 };
  const arranged = (sublayer: Step[]) =>
    placement === 'pre' ? [norm, ...sublayer, sum] : [...sublayer, sum, norm];
  return [
    arranged([
      branch(t`query, key, value`, `3 × B × ${heads} × T × ${ofHead}`, 3 * (d * d + d)),
      branch('q·kᵀ / √d_head', weights),
      ...(causal ? [branch(t`later tokens: −∞`, weights)] : []),
      branch('softmax', weights),
      branch(t`weights · value, joined`, stream),
      branch(t`output`, stream, d * d + d),
    ]),
    arranged([
      branch(t`up`, hidden, d * dFf + dFf),
      branch(ACTIVATION_NAMES[activation], hidden),
      branch(t`down`, stream, dFf * d + d),
    ]),
  ];
}

/** d_head as text; '?' if the heads do not divide d_model. */
export function headSize({ dModel, heads }: BlockSizes): string {
  return dModel % heads === 0 ? grouped(dModel / heads) : '?';
}

/** The reason why these sizes are invalid, as the end of a sentence; '' if they are valid. */
export function headsProblem({ dModel, heads }: BlockSizes): string {
  if (dModel % heads === 0) return '';
  const divides = (n: number) => dModel % n === 0;
  let [below, above] = [heads, heads];
  while (!divides(below)) below--;
  while (above < dModel && !divides(above)) above++;
  return above > dModel
    ? t`is ${heads}; it must divide d_model = ${dModel}, as ${below} does`
    : t`is ${heads}; it must divide d_model = ${dModel}, as ${below} and ${above} do`;
}
