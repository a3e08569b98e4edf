// Checks that the names at the right edge of a chart are connected with their curves.

import { scaleLinear } from 'd3-scale';
import { renderToString } from 'preact-render-to-string';
import { expect, test } from 'vitest';
import { CurveNames } from './curve-names';

const plot = { x: 0, y: 0, width: 300, height: 100 };
const places = {
  x: [0, 1, 2, 3],
  plot,
  xScale: scaleLinear([0, 3], [0, 300]),
  yScale: scaleLinear([0, 1], [100, 0]),
};

test('a curve that ends early has a line from its end to its name', () => {
  const curves = [
    { name: 'whole', colour: 'red', values: [0, 0.1, 0.2, 0.3] },
    { name: 'stopped', colour: 'blue', values: [0, 0.5, null, undefined] },
  ];
  const page = renderToString(<CurveNames {...places} curves={curves} beside />);
  const [whole, stopped] = page.split('curve-name').slice(1);
  expect(whole.match(/<path/g)).toHaveLength(1);
  expect(stopped.match(/<path/g)).toHaveLength(2);
  expect(stopped).toContain('d="M106,50L300,50"');
});
