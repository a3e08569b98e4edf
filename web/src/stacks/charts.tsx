// Signal and gradient by layer, as charts.

import type { ComponentChildren } from 'preact';
import { type Curve, LineChart } from '../ui/line-chart';

export type Signal = 'stream' | 'gradient';

const NAMES: Record<Signal, string> = {
  stream: 'Stream RMS, from layer 0 to the last',
  gradient: 'Gradient RMS, from the last layer (right) to layer 0',
};

interface LayerChartProps {
  of: Signal;
  curves: readonly Curve[];
  relative?: boolean; // each curve to its own start
}

/** The root mean square of the stream, or of its gradient, at each layer. */
export function LayerChart({ of, curves, relative }: LayerChartProps) {
  return (
    <LineChart
      name={NAMES[of]}
      xLabel="layer"
      yLabel={`${of}’s RMS${relative ? ', relative' : ''}`}
      curves={curves}
      logarithmic
    />
  );
}

interface LayerHintProps {
  last: ComponentChildren; // where the last value is
  children: ComponentChildren;
}

/** What the layers of these charts mean, and what else is to be said of them. */
export function LayerHint({ last, children }: LayerHintProps) {
  return (
    <p class="hint">
      The value at layer l is that of its input; the one at {last} is that of the last layer’s
      output. {children}
    </p>
  );
}
