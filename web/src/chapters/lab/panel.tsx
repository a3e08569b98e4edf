// A panel of a figure: curves of measurement and theory, or heat maps, and its numbers as tables.

import type { LabCurve, LabPanel } from '../../kernels/lab';
import { t } from '../../language/text';
import { failuresOf } from './failures';
import { namesBeside, namesHeight } from '../../ui/curve-names';
import { type Curve, type Values } from '../../ui/curves';
import { HeatMaps } from '../../ui/heat-maps';
import { LineChart, named } from '../../ui/line-chart';
import { plainNumber } from '../../ui/numbers';
import { DataTable, numberOrBlank } from '../../ui/table';

interface PanelProps {
  panel: LabPanel;
  fails: boolean; // whether a check of the figure is outside
}

export function PanelFigure({ panel, fails }: PanelProps) {
  return (
    <div class="lab-figure">
      {panel.maps ? <Maps panel={panel} /> : <Curves panel={panel} fails={fails} />}
      <p class="hint">{[panel.caption, ...remarks(panel, fails)].join(' ')}</p>
    </div>
  );
}

/** The positions on x of all curves, in order. */
function placesOf({ x, measured, predicted }: LabPanel): number[] {
  const all = [...measured, ...predicted].flatMap((curve) => curve.x.map((at) => at ?? NaN));
  const places = [...new Set(all)].sort((a, b) => a - b);
  return x.scale === 'log' ? places.filter((at) => at > 0) : places;
}

const DASHES = [undefined, '7 4', '2 4', '12 3 3 3'];
const COLOURS = 6;

/** The look of a curve; above six, curves have the same colours and other dashes. */
function lookOf(color: number) {
  return {
    colour: `var(--series-${(color % COLOURS) + 1})`,
    dash: DASHES[Math.floor(color / COLOURS) % DASHES.length],
  };
}

function curveOf(curve: LabCurve, places: readonly number[], theory: boolean): Curve {
  const index = new Map(curve.x.map((at, i) => [at, i]));
  const along = (values: Values): Values => {
    return places.map((at) => (index.has(at) ? values[index.get(at)!] : undefined));
  };
  const { low, high, key, name } = curve;
  /** A band with one finite edge extends to infinity on the other side. */
  const edge = (of: Values, other: Values, end: number) =>
    along(of.map((v, i) => v ?? (other[i] === null ? null : end)));
  const { colour, dash } = lookOf(curve.color);
  return {
    name: key || name,
    colour,
    dash: theory ? undefined : dash,
    values: curve.y.length > 0 ? along(curve.y) : [],
    band:
      low.length > 0
        ? { low: edge(low, high, -Infinity), high: edge(high, low, Infinity) }
        : undefined,
    theory,
    marked: !theory,
    unnamed: key === '',
  };
}

const curvesOf = (panel: LabPanel, places: readonly number[], fails: boolean): Curve[] => [
  ...panel.measured.map((curve) => ({
    ...curveOf(curve, places, false),
    failing: fails ? failingAt(places, curve, panel) : undefined,
  })),
  ...panel.predicted.map((curve) => curveOf(curve, places, true)),
];

/** The failures of a curve at these places. */
function failingAt(places: readonly number[], curve: LabCurve, panel: LabPanel) {
  const failures = failuresOf(curve, panel);
  return places.map((at) => failures[curve.x.indexOf(at)]);
}

function Curves({ panel, fails }: PanelProps) {
  const { title, x, y } = panel;
  const places = placesOf(panel);
  const curves = curvesOf(panel, places, fails);
  return (
    <LineChart
      name={title}
      xLabel={x.label}
      yLabel={y.label}
      x={places}
      curves={curves}
      logarithmic={y.scale === 'log'}
      xLogarithmic={x.scale === 'log'}
      xRange={x.range}
      yRange={y.range}
      height={(width) => heightOf(curves, width)}
    >
      <Numbers panel={panel} />
    </LineChart>
  );
}

/** The height for the names of the curves and a plot that is about half as high as wide. */
function heightOf(curves: readonly Curve[], width: number): number {
  const height = Math.min(340, Math.max(240, 0.45 * width)) + 60;
  const all = named(curves);
  return namesBeside(all, { width, height }) === null ? height + namesHeight(all, width) : height;
}

/** Sentences that explain the marks of the drawing and name the curves that it cannot show. */
function remarks(panel: LabPanel, fails: boolean): string[] {
  const curves = [...panel.measured, ...panel.predicted];
  const isLog = panel.y.scale === 'log';
  const isShown = (v: number | null) => v !== null && (!isLog || v > 0);
  const hasZero = panel.measured.some(({ y }) => isLog && y.some((v) => v !== null && v <= 0));
  const empty = curves.filter(({ y, key }) => key && y.length > 0 && !y.some(isShown));
  const hasFailing =
    fails && panel.measured.some((curve) => failuresOf(curve, panel).includes(true));
  return [
    ...(hasFailing ? [t`Red ring: the measured mean lies outside the allowed band.`] : []),
    ...(hasZero ? [t`Triangle at the lower edge: zero or less.`] : []),
    ...(empty.length > 0 ? [t`${empty.map(({ key }) => key).join(', ')}: nothing to show.`] : []),
  ];
}

interface Row {
  name: string;
  at: Map<number, number | null>;
}

/** One row for each list of numbers of the curve. */
function rowsOf(curve: LabCurve, name: string): Row[] {
  const lists: [string, (number | null)[]][] = [
    [name, curve.y],
    [t`${name}, from`, curve.low],
    [t`${name}, to`, curve.high],
  ];
  return lists
    .filter(([, values]) => values.length > 0)
    .map(([name, values]) => ({
      name,
      at: new Map(curve.x.map((x, i) => [x ?? NaN, values[i]])),
    }));
}

function Numbers({ panel }: { panel: LabPanel }) {
  const rows = [
    ...panel.measured.flatMap((curve) => rowsOf(curve, curve.name)),
    ...panel.predicted.flatMap((curve) => rowsOf(curve, t`${curve.name} (theory)`)),
  ];
  const places = [...new Set(rows.flatMap(({ at }) => [...at.keys()]))].sort((a, b) => a - b);
  const { label, names } = panel.x;
  return (
    <DataTable
      caption={`${panel.title}: ${panel.y.label}`}
      columns={[label, ...places.map((x) => names?.[x] || plainNumber(x))]}
      rows={rows.map(({ name, at }) => ({
        head: name,
        cells: places.map((x) => at.get(x)),
        data: { curve: name },
      }))}
      format={cellOf}
    />
  );
}

/** The text of a cell; blank if the curve has no value there. JSON has null
 * for a value that is not finite. */
function cellOf(value: number | null | undefined): string {
  return value === null ? t`not finite` : numberOrBlank(value);
}

function Maps({ panel: { title, x, y, maps = [], value = '' } }: { panel: LabPanel }) {
  return (
    <HeatMaps
      name={title}
      maps={maps}
      value={value}
      xLabel={x.label}
      yLabel={y.label}
      xNames={x.names}
      yNames={y.names}
    >
      {maps.map(({ name, rows }) => (
        <DataTable
          key={name}
          caption={`${title}, ${name}`}
          columns={['', ...(x.names ?? rows[rows.length - 1].map((_, c) => c))]}
          rows={rows.map((cells, r) => ({
            head: y.names?.[r] === undefined ? r : y.names[r],
            cells,
            data: { map: name },
          }))}
          format={numberOrBlank}
        />
      ))}
    </HeatMaps>
  );
}
