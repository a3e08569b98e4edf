// Curves over layers or steps, by uPlot, with the same numbers as a table.

import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { exactNumber, shortNumber } from './numbers';
import { ScrollTable } from './table';
import { isDark } from './theme';

export interface Curve {
  name: string;
  colour: { light: string; dark: string };
  dash?: number[];
  values: readonly (number | null)[]; // one for each x; null: none
}

export interface LineChartProps {
  name: string;
  xLabel: string;
  yLabel: string;
  x: readonly number[];
  curves: readonly Curve[];
  logarithmic?: boolean;
  height?: number;
}

export function LineChart(props: LineChartProps) {
  const { name, xLabel, x, curves, height = 260 } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const dark = isDark.value;
  const data = [x, ...curves.map((c) => c.values)] as uPlot.AlignedData;
  const looks = JSON.stringify([dark, height, props.yLabel, xLabel, props.logarithmic,
    curves.map((c) => [c.name, c.colour, c.dash])]);

  useEffect(() => {
    const width = () => box.current!.clientWidth;
    const made = new uPlot({ ...options(props, dark), width: width(), height }, data, box.current!);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: width(), height }));
    observer.observe(box.current!);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [looks]);
  useEffect(() => plot.current?.setData(data), [x, curves]);

  return (
    <figure class="chart">
      <figcaption>{name}</figcaption>
      <div ref={box} role="img" aria-label={`${name}. The table that follows has the numbers.`} />
      <div class="numbers">
        <ScrollTable caption={name}>
          <thead>
            <tr>
              <th scope="col">{xLabel}</th>
              {x.map((v) => <th scope="col" key={v}>{v}</th>)}
            </tr>
          </thead>
          <tbody>
            {curves.map((curve) => (
              <tr key={curve.name} data-curve={curve.name}>
                <th scope="row">{curve.name}</th>
                {curve.values.map((v, i) => <td key={i}>{v === null ? '' : exactNumber(v)}</td>)}
              </tr>
            ))}
          </tbody>
        </ScrollTable>
      </div>
    </figure>
  );
}

function options(props: LineChartProps, dark: boolean): Omit<uPlot.Options, 'width' | 'height'> {
  const text = dark ? '#d7deea' : '#24324a';
  const axis = {
    stroke: text,
    grid: { stroke: dark ? '#2a3550' : '#dde3ec', width: 1 },
    ticks: { stroke: dark ? '#2a3550' : '#dde3ec', width: 1 },
    font: '12px system-ui, sans-serif',
    labelFont: '12px system-ui, sans-serif',
  };
  return {
    scales: { x: { time: false }, y: props.logarithmic ? { distr: 3 } : {} },
    axes: [
      { ...axis, label: props.xLabel },
      {
        ...axis,
        label: props.yLabel,
        size: 64,
        values: (_, values) => values.map((v) => (v === null ? '' : shortNumber(v))),
      },
    ],
    series: [
      { label: props.xLabel },
      ...props.curves.map((curve) => ({
        label: curve.name,
        stroke: dark ? curve.colour.dark : curve.colour.light,
        width: 2,
        dash: curve.dash,
        points: { show: false },
        value: (_: uPlot, v: number | null) => (v === null ? '–' : shortNumber(v)),
      })),
    ],
    legend: { live: true },
  };
}
