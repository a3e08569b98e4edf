// Stage A: the split, the two paths, the addition.

import { t } from '../../language/text';
import { YAxis } from '../../ui/axes';
import { BarHandles } from '../../ui/bar-handles';
import { Bars, heightScale } from '../../ui/bars';
import { Figure } from '../../ui/figure';
import { Label, Line, type Point } from '../../ui/marks';
import { textWidth } from '../../ui/text-width';
import { type AddNorm, INJECTED, result } from './compute';
import { type Layout, layoutOf, PLUS, WIDTH } from './stage-a-layout';
import { LIMIT, state } from './state';
import { Spot } from './tour';

/** The range of all three charts, so that their bars can be added by eye.
 * x + F(x) fits; 10·F(x) may leave the charts. */
const RANGE = 2 * LIMIT;
const TICKS = [
  { value: RANGE, text: String(RANGE) },
  { value: -RANGE, text: `−${RANGE}` },
];
const BELOW = 14; // the free height under the chart of the sum
const LINES = TICKS.map(({ value }) => ({ value, text: '' }));

function chartsOf({ charts, burst }: Layout, { identity, branch, sum }: AddNorm) {
  const chart = { range: RANGE, zeroLine: true };
  const bursting = (name: keyof Layout['burst']) =>
    state.unstable.value ? { ...chart, burst: burst[name] } : chart;
  return {
    x: { ...chart, box: charts.x, values: identity, colour: 'var(--stream)' },
    branch: { ...bursting('branch'), box: charts.branch, values: branch, colour: 'var(--branch)' },
    sum: { ...bursting('sum'), box: charts.sum, values: sum, colour: sumColour(), below: BELOW },
  };
}

export function sumColour(): string {
  return state.unstable.value ? 'var(--broken)' : 'var(--sum)';
}

/** The current sum as text: "s = x + 10·F(x)". */
function sumName(): string {
  return `s = ${state.residual.value ? 'x + ' : ''}${branchName()}`;
}

function branchName(): string {
  return state.unstable.value ? `${INJECTED}·F(x)` : 'F(x)';
}

export function StageA() {
  const { identity, branch, sum } = result.value;
  return (
    <Figure
      name={t`Stage A. The input x takes two paths: unchanged along the identity path, and through
        attention or the feed-forward network, which computes F(x). At the plus sign the two are
        added. Bars show x, F(x) and their sum s.`}
      width={WIDTH}
      height={(width) => layoutOf(width).height}
      draw={(width) => <Drawing {...layoutOf(width)} />}
      handles={(width) => <Handles {...layoutOf(width)} />}
      caption={t`Stage A: the addition`}
      rows={[
        { name: 'x', id: 'x', values: state.x.value },
        { name: t`identity path`, id: 'identity', values: identity },
        { name: branchName(), id: 'branch', values: branch },
        { name: sumName(), id: 'sum', values: sum },
      ]}
    />
  );
}

function Handles(layout: Layout) {
  const { x, branch } = chartsOf(layout, result.value);
  const limits = { limit: LIMIT, step: 0.05 };
  const factor = state.unstable.value ? INJECTED : 1;
  return (
    <>
      {Object.entries(layout.spots).map(([part, box]) => (
        <Spot key={part} part={part as keyof Layout['spots']} box={box} />
      ))}
      {state.residual.value && <BarHandles {...limits} chart={x} item={state.x} name="x" />}
      <BarHandles {...limits} chart={branch} item={state.branch} name="F(x)" factor={factor} />
    </>
  );
}

function Drawing(layout: Layout) {
  const { x, branch, sum } = chartsOf(layout, result.value);
  return (
    <>
      <Paths {...layout} />
      <Sublayer {...layout} />
      <Input {...layout} />
      {(state.residual.value ? [x, branch, sum] : [branch, sum]).map((chart) => (
        <g key={chart.box.x} class={'burst' in chart ? 'an-burst' : ''}>
          {/* The sum uses the scale of the chart before it. */}
          <YAxis
            plot={chart.box}
            scale={heightScale(chart)}
            ticks={chart === sum ? LINES : TICKS}
          />
          <Bars {...chart} />
        </g>
      ))}
      <Plus at={layout.plus} />
      <Labels {...layout} />
    </>
  );
}

function Paths({ input, split, identity, branch, merges, next, labels }: Layout) {
  const on = state.residual.value;
  const stream = { colour: 'var(--stream)', dash: on ? undefined : '3 6' };
  const change = `${on} ${state.unstable.value}`; // a change starts the animation of values
  return (
    <>
      <g class={on ? '' : 'an-off'}>
        <Line points={identity} {...stream} />
        <Line points={merges.identity} {...stream} arrow={9} />
      </g>
      <Line points={branch} colour="var(--branch)" />
      <Line points={merges.branch} colour="var(--branch)" arrow={9} />
      <Line points={[input, split]} />
      <Line points={next} arrow={10} />
      <Label {...labels.next} class="faint">
        {t`to the norm`}
      </Label>
      <circle cx={split[0]} cy={split[1]} r={4} />
      <g key={change} class="an-values">
        {on && <Values path={[input, ...identity]} colour="var(--stream)" />}
        <Values path={[input, ...branch]} colour="var(--branch)" />
        {on && <Values path={merges.identity} colour="var(--stream)" late />}
        <Values path={merges.branch} colour="var(--branch)" late />
      </g>
    </>
  );
}

/** Five dots that move along a path once. */
function Values({ path, colour, late }: { path: Layout['next']; colour: string; late?: boolean }) {
  const d = `M${path.map((point) => point.join(' ')).join('L')}`;
  return <path class={late ? 'line late' : 'line'} d={d} stroke={colour} pathLength={100} />;
}

function Input({ input: [x, y] }: Layout) {
  const name = t`Input`;
  const width = Math.max(44, textWidth(name, 600) + 16);
  return (
    <g class="an-input">
      <rect x={x - width / 2} y={y - 22} width={width} height={44} rx={22} />
      <Label at={[x, y]} class="strong">
        {name}
      </Label>
    </g>
  );
}

function Sublayer({ sublayer }: Layout) {
  const { x, y, width, height } = sublayer;
  return (
    <g class="an-sublayer">
      <rect {...sublayer} class="behind" />
      <rect {...sublayer} />
      <Label at={[x + width / 2, y + height / 2]}>{t`Attention / FFN`}</Label>
    </g>
  );
}

export function Plus({ at: [x, y] }: { at: Point }) {
  return (
    <g class="an-plus" transform={`translate(${x} ${y})`}>
      <circle r={PLUS} />
      <path d="M-7 0H7M0 -7V7" />
    </g>
  );
}

function Labels({ labels, titles }: Layout) {
  const on = state.residual.value;
  const identity = on
    ? { class: 'strong halo', colour: 'var(--stream)' }
    : { class: 'strong halo faint' };
  const branch = { class: 'strong halo', colour: 'var(--branch)' };
  return (
    <>
      <Label {...labels.identity} {...identity}>
        {t`Identity (Residual)`}
      </Label>
      <Label {...labels.highway} class="faint halo">
        {on ? t`the highway` : t`off: zeros`}
      </Label>
      <Label {...labels.transformation} {...branch}>
        {t`Transformation`}
      </Label>
      <Label {...labels.diversion} class="faint halo">
        {t`the diversion`}
      </Label>
      <Label {...titles.x} {...identity}>
        {on ? 'x' : '0'}
      </Label>
      <Label {...titles.branch} {...branch}>
        {branchName()}
      </Label>
      <Label {...titles.sum} class="strong halo" colour={sumColour()}>
        {sumName()}
      </Label>
    </>
  );
}
