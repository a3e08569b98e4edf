// A small picture of the whole Transformer, with its Add & Norm boxes marked.

import { t } from '../../language/text';
import { pressable } from '../../ui/marks';

const BOX = { width: 128, height: 24 };
const EMBEDDING_TOP = 300;
const PAIR_TOPS = [244, 170, 96]; // the sublayers, from the bottom up
const FINGER = 44; // the minimum touch target in pixels
const GAP = 6; // between a sublayer and its Add & Norm

interface Stack {
  name: string;
  centre: number;
  frame: { x: number; y: number };
  loop: number; // x of the residual paths
  times: number; // x of "× N"
  sublayers: string[]; // from the bottom up
}

const STACKS: Stack[] = [
  {
    name: t`Encoder`,
    centre: 84,
    frame: { x: 8, y: 126 },
    loop: 14,
    times: 28,
    sublayers: [t`Self-attention`, t`Feed-forward`],
  },
  {
    name: t`Decoder`,
    centre: 244,
    frame: { x: 168, y: 52 },
    loop: 314,
    times: 304,
    sublayers: [t`Masked attention`, t`Cross-attention`, t`Feed-forward`],
  },
];

interface TransformerProps {
  /** Called when an Add & Norm box is pressed. Without it, the boxes are not interactive. */
  onOpen?(): void;
}

export function Transformer({ onOpen }: TransformerProps) {
  return (
    <svg
      class="diagram an-transformer"
      viewBox="0 0 328 350"
      role="group"
      aria-label={t`The Transformer has an encoder with attention and a feed-forward network, and a
        decoder with two attention sublayers and a feed-forward network. Both are repeated N times.
        Each of these five sublayers has a residual path around it and an Add & Norm box after it.`}
    >
      <path d="M84 140V108H164V182H180" />
      {STACKS.map((stack) => (
        <StackPicture key={stack.name} stack={stack} onOpen={onOpen} />
      ))}
      <Labelled x={180} y={10} text={t`Linear, softmax`} />
    </svg>
  );
}

function StackPicture({ stack, onOpen }: TransformerProps & { stack: Stack }) {
  const { name, centre, frame, loop, times, sublayers } = stack;
  const left = centre - BOX.width / 2;
  const top = stack === STACKS[1] ? 34 : PAIR_TOPS[1] - GAP - BOX.height;
  return (
    <g>
      <rect class="frame" {...frame} width={152} height={282 - frame.y} rx={8} />
      <text x={times} y={frame.y - 5}>
        × N
      </text>
      <path d={`M${centre} ${EMBEDDING_TOP}V${top}`} />
      {sublayers.map((text, i) => {
        const y = PAIR_TOPS[i];
        const normTop = y - GAP - BOX.height;
        const from = y + BOX.height + (i === 0 ? 7 : 12);
        const edge = loop < centre ? left : left + BOX.width;
        return (
          <g key={text}>
            <path d={`M${centre} ${from}H${loop}V${normTop + BOX.height / 2}H${edge}`} />
            <Labelled x={left} y={y} text={text} />
            <g
              class="marked"
              {...(onOpen && pressable(t`Add & Norm after ${text}, ${name}`, onOpen))}
            >
              <rect class="target" x={left} y={normTop - 10} width={BOX.width} height={FINGER} />
              <Labelled x={left} y={normTop} text={t`Add & Norm`} />
            </g>
          </g>
        );
      })}
      <Labelled x={left} y={EMBEDDING_TOP} text={t`Embedding`} />
      <text x={centre} y={343}>
        {name}
      </text>
    </g>
  );
}

function Labelled({ x, y, text }: { x: number; y: number; text: string }) {
  return (
    <g>
      <rect x={x} y={y} {...BOX} rx={4} />
      <text x={x + BOX.width / 2} y={y + BOX.height / 2 + 4}>
        {text}
      </text>
    </g>
  );
}
