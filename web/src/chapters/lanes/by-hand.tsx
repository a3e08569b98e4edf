// Two lanes that the reader moves by hand: reading, writing and mixing, one slider each.

import { kernels } from '../../kernels/current';
import type { LaneNumbers } from '../../kernels/lanes';
import { t } from '../../language/text';
import { Slider } from '../../ui/controls';
import { percent, roundNumber } from '../../ui/numbers';
import { step } from './numbers';
import { state } from './state';
import { StepFigure } from './step-figure';

/** The sublayers over which the lanes become more alike. */
const SUBLAYERS = 24;

function numbersByHand(): LaneNumbers {
  const [read, write, mix] = [state.readTwo.value, state.writeTwo.value, state.mix.value];
  return {
    lanes: 2,
    lanesAfter: 2,
    read: [1, read],
    carry: [1 - mix, mix, mix, 1 - mix],
    write: [1, write],
  };
}

export function ByHand() {
  const numbers = numbersByHand();
  return (
    <div class="lanes-hand">
      <div class="controls">
        <Slider label={t`Read from lane 2`} item={state.readTwo} />
        <Slider label={t`Write to lane 2`} item={state.writeTwo} />
        <Slider label={t`Mixing`} item={state.mix} format={(share) => percent(share)} />
      </div>
      <StepFigure
        title={t`Two lanes, one sublayer`}
        numbers={numbers}
        row={undefined}
        step={step(numbers, undefined)}
      />
      <ul data-words="hand" role="status">
        {handWords(numbers).map((words) => (
          <li key={words}>{words}</li>
        ))}
      </ul>
    </div>
  );
}

/** One sentence each about reading, writing and mixing. */
function handWords(own: LaneNumbers): string[] {
  const { read, carry, write } = own;
  const mix = carry[1];
  const left = kernels.lanes.carried({ layers: SUBLAYERS / 2, own }).left.at(-1) ?? 0;
  return [
    read[1] === 0
      ? t`The sublayer reads lane 1 alone. The numbers in lane 2 do not reach it.`
      : t`The sublayer reads lane 1 plus ${roundNumber(read[1])} times lane 2.`,
    write[1] === 0
      ? t`It writes its result to lane 1 alone, so lane 2 keeps what it has.`
      : t`It adds its whole result to lane 1, and ${roundNumber(write[1])} times its result to lane 2.`,
    mix === 0
      ? t`The lanes are not mixed: a difference between them is carried on unchanged.`
      : t`Each lane takes ${percent(mix)} from the other. After ${SUBLAYERS} sublayers
          ${percent(left, 2)} of a difference between them is left.`,
  ];
}
