// BatchNorm and LayerNorm on the same batch: the set of one cell in each of them.

import { t } from '../../language/text';
import { Figure } from '../../ui/figure';
import { Label } from '../../ui/marks';
import { NORM_NAMES } from '../../ui/names';
import { fixedNumber, roundNumber } from '../../ui/numbers';
import { textWidth } from '../../ui/text-width';
import { VectorTable } from '../../ui/table';
import { Cells, useCell } from './cells';
import { cellsOf, Contour, Names } from './heat-map';
import { cellBox, layoutOf } from './layout';
import { type Batch, type Cell, featuresOf, normalize, setOf } from './sets';

const KINDS = ['batch', 'layer'] as const;
type Kind = (typeof KINDS)[number];

const COLOURS = { batch: 'var(--branch)', layer: 'var(--stream)' };
const SETS = { batch: t`one channel, all samples`, layer: t`one sample, all features` };

interface TwoNormsProps {
  batch: Batch;
  x: Float64Array;
}

export function TwoNorms({ batch, x }: TwoNormsProps) {
  const [cell, setPointed] = useCell(batch);
  const sets = KINDS.map((kind) => statisticsOf(kind, batch, x, cell));
  const words = t`Sample ${cell.row + 1}, channel ${1 + Math.floor(cell.column / batch.positions)}:
    ${sets.join('; ')}.`;
  return (
    <>
      <Figure
        title={t`The same batch in BatchNorm and in LayerNorm`}
        name={t`One table twice. BatchNorm normalizes the values of one channel together, over all
          samples. LayerNorm normalizes the values of one sample together.`}
        width={1240}
        height={(width) => layoutOf(width, batch).height}
        draw={(width) =>
          layoutOf(width, batch).maps.map((box, i) => (
            <Table key={KINDS[i]} kind={KINDS[i]} {...{ box, batch, x, cell }} words={sets[i]} />
          ))
        }
        handles={(width) => (
          <Cells
            {...{ width, batch, cell, words }}
            label={t`Value in both tables`}
            point={setPointed}
          />
        )}
      >
        <VectorTable
          caption={t`What is normalized together`}
          rows={KINDS.map((kind) => ({
            name: NORM_NAMES[kind],
            id: `${kind}-set`,
            values: valuesOf(kind, batch, x, cell),
          }))}
        />
      </Figure>
      <p>{t`To normalize one sample, BatchNorm needs the other samples. LayerNorm needs only the
        sample itself: in a Transformer, one token.`}</p>
    </>
  );
}

/** The values that a norm normalizes together with this cell. */
function valuesOf(kind: Kind, batch: Batch, x: Float64Array, cell: Cell): number[] {
  const set = setOf(kind, batch, cell);
  const sets = cellsOf(batch).map((other) => setOf(kind, batch, other));
  return [...x].filter((_, i) => sets[i] === set);
}

/** "BatchNorm: μ = 0.4, σ = 1.2 of 4 values". */
function statisticsOf(kind: Kind, batch: Batch, x: Float64Array, cell: Cell): string {
  const { statistics } = normalize(kind, batch, x);
  const set = setOf(kind, batch, cell);
  const [mean, deviation] = [statistics.mean[set], statistics.deviation[set]];
  const count = x.length / statistics.mean.length;
  return t`${NORM_NAMES[kind]}: μ = ${roundNumber(mean, 3)}, σ = ${roundNumber(deviation, 3)} of
    ${count} values`;
}

interface TableProps extends TwoNormsProps {
  kind: Kind;
  box: ReturnType<typeof cellBox>;
  cell: Cell;
  words: string;
}

function Table({ kind, box, batch, x, cell, words }: TableProps) {
  const chosen = setOf(kind, batch, cell);
  const isLit = (other: Cell) => setOf(kind, batch, other) === chosen;
  const texts = [...x].map((v) => fixedNumber(v, 1));
  const room = box.width / featuresOf(batch) - 4;
  const isWide = texts.every((text) => textWidth(text, 600) < room);
  return (
    <>
      <Names box={box} title={`${NORM_NAMES[kind]}: ${SETS[kind]}`} batch={batch} />
      {cellsOf(batch).map((one, i) => {
        const place = cellBox(box, batch, one);
        const at = [place.x + place.width / 2, place.y + place.height / 2] as const;
        return (
          <g key={i} class={isLit(one) ? 'axes-together' : 'axes-apart'}>
            <rect {...place} fill={isLit(one) ? COLOURS[kind] : 'var(--nothing)'} />
            {isWide && <Label at={at}>{texts[i]}</Label>}
          </g>
        );
      })}
      <Contour box={box} batch={batch} isLit={isLit} />
      <Label at={[box.x, box.y + box.height + 18]} anchor="start" colour={COLOURS[kind]}>
        {words}
      </Label>
    </>
  );
}
