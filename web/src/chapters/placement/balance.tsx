// The arguments for and against post-norm and pre-norm, measured on the stacks of the charts.

import type { StackMeasurement } from '../../kernels/kernels';
import { WithTerms } from '../../glossary/view';
import { t } from '../../language/text';
import { ALIKE, endsOf } from '../../stacks/verdict';
import { roundNumber } from '../../ui/numbers';
import type { Shown } from './measured';

type Point = readonly [sign: '+' | '−', words: string];

interface Side {
  name: string;
  points: readonly Point[];
}

export function Balance({ stacks }: { stacks: readonly Shown[] }) {
  const of = (name: string) => stacks.find(({ placement }) => placement === name)!.measurement;
  return (
    <div class="placement-balance">
      {sidesOf(of('post'), of('pre')).map(({ name, points }) => (
        <section key={name} class="card" aria-label={name}>
          <h4>{name}</h4>
          <ul class="plain-list">
            {points.map(([sign, words]) => (
              <li key={words} data-sign={sign}>
                <strong class={sign === '+' ? 'good' : 'bad'}>{sign}</strong>{' '}
                <WithTerms text={words} />
              </li>
            ))}
          </ul>
        </section>
      ))}
    </div>
  );
}

const FOR = '+';
const AGAINST = '−';

/** The measured points of both sides, and the recorded ones with their source. */
export function sidesOf(post: StackMeasurement, pre: StackMeasurement): Side[] {
  const [a, b] = [post, pre].map(numbersOf);
  const norms = 2 * (post.stream.length - 1);
  const same: Point[] =
    a.cosine >= ALIKE
      ? [
          [
            AGAINST,
            t`All tokens carry nearly the same vector after the last layer: their mean cosine is ${roundNumber(a.cosine, 4)}.`,
          ],
        ]
      : [];
  const distinct: Point[] =
    same.length > 0 && b.cosine < ALIKE
      ? [
          [
            FOR,
            t`Its tokens can still be told apart: their mean cosine is ${roundNumber(b.cosine, 2)}.`,
          ],
        ]
      : [];
  return [
    {
      name: t`Post-norm`,
      points: [
        [FOR, t`The norms keep the stream at one size: its RMS is ${a.end} after the last layer.`],
        [
          FOR,
          t`Late layers still count: the last one turns the stream by ${a.last}°, the first by ${a.first}°.`,
        ],
        [
          AGAINST,
          t`The gradient passes through ${norms} norms: layer 0 gets ${a.gradient}× the last layer’s.`,
        ],
        ...same,
        [
          AGAINST,
          t`Without warm-up it stalls at high learning rates, as in 12 of 12 recorded runs with default settings.`,
        ],
      ],
    },
    {
      name: t`Pre-norm`,
      points: [
        [
          FOR,
          t`The gradient has a path past all norms but the last: layer 0 gets ${b.gradient}× the last layer’s.`,
        ],
        ...distinct,
        [FOR, t`It trains without warm-up (Xiong et al. 2020).`],
        [AGAINST, t`The stream grows: its RMS goes from ${b.start} to ${b.end}.`],
        [
          AGAINST,
          t`Late layers count less: the last one turns the stream by ${b.last}°, the first by ${b.first}°.`,
        ],
      ],
    },
  ];
}

function numbersOf(measurement: StackMeasurement) {
  const { stream, tokenCosine, turn } = measurement;
  const round = (value: number) => roundNumber(value, 2);
  return {
    start: round(stream[0]),
    end: round(stream.at(-1)!),
    gradient: round(endsOf(measurement).gradient),
    cosine: tokenCosine.at(-1)!,
    first: round(turn[0]),
    last: round(turn.at(-1)!),
  };
}
