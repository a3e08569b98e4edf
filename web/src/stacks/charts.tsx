// Signal and gradient by layer, as charts.

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

/** What the charts' layers mean, and how long the measuring took. */
export function LayerHint(props: { layers: number; milliseconds: number; what?: string }) {
  const { layers, milliseconds, what } = props;
  return (
    <p class="hint">
      At layer l stands what layer l reads; at {layers}, what the last layer leaves. Measured in{' '}
      {Math.round(milliseconds)} ms{what && `: ${what}`}.
    </p>
  );
}
