// The controls of the page, each with its label and its error message.

import type { ReadonlySignal } from '@preact/signals';
import type { ComponentChildren, TargetedMouseEvent } from 'preact';
import { useId, useState } from 'preact/hooks';
import { localNumber } from '../language/language';
import { t, translated } from '../language/text';
import { type ChoiceField, type Field, type Range, type SubsetField, tidy } from '../state/fields';
import { goTo, linkComplaints, linkTo, wholePageAt } from '../state/link';
import { embedded } from '../state/query';
import { route, SHORT } from '../state/route';
import { assign, type Item, type Values } from '../state/store';
import { copyText } from './copy';
import { plainNumber } from './numbers';

export function Problem({ id, text }: { id?: string; text: string }) {
  return (
    <span class="problem" id={id} role="status">
      {text}
    </span>
  );
}

/** An error message in place of a result. Workers write it in English. */
export function Failure({ text }: { text: string }) {
  return (
    text && (
      <p class="problem" role="alert">
        {translated(text)}
      </p>
    )
  );
}

/** Complaints about parts of the link that could not be used. */
export function LinkComplaints() {
  const complaints = linkComplaints.value.join('; ');
  return (
    <Failure
      text={
        complaints &&
        t`Some settings in this link are not valid: ${complaints}. The others are in use.`
      }
    />
  );
}

interface ControlProps<T, F> {
  label: string;
  /** An Item, or the part of one that a control uses. */
  item: { value: T; readonly problem: ReadonlySignal<string>; readonly field: F };
}

interface SliderProps extends ControlProps<number, Range> {
  /** Formats the displayed value; by default a plain number. */
  format?(value: number): string;
}

export function Slider({ label, item, format = plainNumber }: SliderProps) {
  const id = useId();
  const { min, max, step } = item.field;
  return (
    <div class="control slider">
      <label for={id}>{label}</label>
      <span class="value" aria-hidden="true">
        {format(item.value)}
      </span>
      <input
        id={id}
        type="range"
        min={min}
        max={max}
        step={step}
        value={item.value}
        aria-valuetext={format(item.value)}
        onInput={(event) => (item.value = tidy(event.currentTarget.valueAsNumber))}
      />
      <Problem text={item.problem.value} />
    </div>
  );
}

export function Checkbox({ label, item }: ControlProps<boolean, Field<boolean>>) {
  return (
    <div class="control">
      <label class="checkbox">
        <input
          type="checkbox"
          checked={item.value}
          onChange={(event) => (item.value = event.currentTarget.checked)}
        />
        {label}
      </label>
      <Problem text={item.problem.value} />
    </div>
  );
}

interface ChoiceProps<V extends string> extends ControlProps<V, ChoiceField<V>> {
  /** The displayed texts of the values; by default the values themselves. */
  labels?: Partial<Record<V, string>>;
  /** The selectable values; by default all. */
  values?: readonly V[];
}

/** The displayed text of a value: its label, or the value itself, which may be a number. */
function nameOf<V extends string>(value: V, labels: Partial<Record<V, string>>): string {
  return labels[value] ?? (Number.isFinite(Number(value)) ? localNumber(value) : value);
}

interface RadioProps<V extends string> extends ChoiceProps<V> {
  /** For a question: the right value. In print it is below the answers. */
  right?: V;
}

/** A choice of one of a few values, all visible. */
export function Choice<V extends string>({
  label,
  item,
  labels = {},
  values = item.field.values,
  right,
}: RadioProps<V>) {
  const name = useId();
  return (
    <fieldset class="control choice">
      <legend>{label}</legend>
      {values.map((value) => (
        <label key={value}>
          <input
            type="radio"
            name={name}
            value={value}
            checked={item.value === value}
            onChange={() => (item.value = value)}
          />
          <span>{nameOf(value, labels)}</span>
        </label>
      ))}
      {right !== undefined && <p class="handout-answer">{t`Answer: ${nameOf(right, labels)}`}</p>}
      <Problem text={item.problem.value} />
    </fieldset>
  );
}

/** A choice of at least one of a few values. */
export function Choices({ label, item }: ControlProps<readonly string[], SubsetField>) {
  const options = item.field.known();
  const chosen = item.value;
  const toggle = (name: string) =>
    (item.value = options.filter((o) => chosen.includes(o) !== (o === name)));
  return (
    <fieldset class="control choice">
      <legend>{label}</legend>
      {options.map((name) => (
        <label key={name}>
          <input
            type="checkbox"
            checked={chosen.includes(name)}
            disabled={chosen.length === 1 && chosen[0] === name}
            onChange={() => toggle(name)}
          />
          <span>{name}</span>
        </label>
      ))}
      <Problem text={item.problem.value} />
    </fieldset>
  );
}

interface SelectProps<V extends string> extends ChoiceProps<V> {
  groups?: readonly { legend: string; names: readonly V[] }[]; // default: one list of all values
}

/** A choice of one of several values, in a drop-down list. */
export function Select<V extends string>({ label, item, labels = {}, groups }: SelectProps<V>) {
  const id = useId();
  const options = (values: readonly V[]) =>
    values.map((value) => (
      <option key={value} value={value}>
        {nameOf(value, labels)}
      </option>
    ));
  return (
    <div class="control select">
      <label for={id}>{label}</label>
      <select
        id={id}
        value={item.value}
        onChange={(event) => (item.value = event.currentTarget.value as V)}
      >
        {groups?.map(({ legend, names }) => (
          <optgroup key={legend} label={legend}>
            {options(names)}
          </optgroup>
        )) ?? options(item.field.values)}
      </select>
      <Problem text={item.problem.value} />
    </div>
  );
}

interface PresetsProps<S> {
  label: string;
  state: S;
  presets: readonly (Values<S> & { name: string })[];
  children?: ComponentChildren; // before the buttons
}

/** Buttons that each set several values at once. A button is pressed while the values match it. */
export function Presets<S extends Record<string, Item<any, any>>>({
  label,
  state,
  presets,
  children,
}: PresetsProps<S>) {
  const isSet = ([name, value]: [string, unknown]) => state[name].value === value;
  return (
    <div class="buttons" role="group" aria-label={label}>
      {children}
      {presets.map(({ name, ...values }) => (
        <Button
          key={name}
          pressed={Object.entries(values).every(isSet)}
          onClick={() => assign(state, values as Values<S>)}
        >
          {name}
        </Button>
      ))}
    </div>
  );
}

interface TextFieldProps<T> {
  label: string;
  item: Item<T, any>;
  rows?: number; // more than one: a text area
  hint?: string;
  /** Formats the value in the box; by default as in a link. */
  format?(value: T): string;
  /** A problem of the value in combination with others, as the end of a sentence. */
  problem?: string;
}

/** A text field that is read at each keystroke. An invalid text leaves the last valid value. */
export function TextField<T>(props: TextFieldProps<T>) {
  const { label, item, rows = 1, hint, format } = props;
  const problem = item.problem.value || props.problem;
  const id = useId();
  const write = () => format?.(item.value) ?? item.text;
  const shown = write();
  // The text stays as typed until the value is changed by a drag, a reset or undo.
  const [typed, setTyped] = useState({ text: shown, shown });
  const text = item.refused.value?.text ?? (typed.shown === shown ? typed.text : shown);
  const kept = item.refused.value ? t`The last valid value stays in use.` : '';
  const attributes = {
    id,
    value: text,
    spellcheck: false,
    'aria-invalid': Boolean(problem),
    'aria-describedby': `${id}-problem`,
    onInput: (event: { currentTarget: { value: string } }) => {
      const { value } = event.currentTarget;
      if (item.read(value)) setTyped({ text: value, shown: write() });
    },
  };
  const size = typeof item.value === 'number' ? 'short' : '';
  return (
    <div class={`control text-field ${size}`}>
      <label for={id}>{label}</label>
      {rows > 1 ? <textarea {...attributes} rows={rows} /> : <input type="text" {...attributes} />}
      {hint && <span class="hint">{hint}</span>}
      <Problem
        id={`${id}-problem`}
        text={problem ? `${t`${label} ${problem}.`} ${kept}`.trim() : ''}
      />
    </div>
  );
}

interface ButtonProps {
  children: ComponentChildren;
  onClick(): void;
  kind?: 'plain' | 'primary' | 'danger';
  disabled?: boolean;
  pressed?: boolean;
}

export function Button({ children, onClick, kind = 'plain', disabled, pressed }: ButtonProps) {
  return (
    <button
      type="button"
      class={`button ${kind}`}
      disabled={disabled}
      aria-pressed={pressed}
      onClick={onClick}
    >
      {children}
    </button>
  );
}

interface ChapterLinkProps {
  to: string;
  class?: string;
  current?: boolean;
  children: ComponentChildren;
}

/** A link to another chapter that keeps the state. An embedded chapter
 * opens other chapters in a new tab. The short route marks links that leave it. */
export function ChapterLink({ to, class: name, current, children }: ChapterLinkProps) {
  const away = embedded !== null && embedded !== to;
  const leaves = embedded === null && route.value === 'short' && !SHORT.includes(to);
  const click = (event: TargetedMouseEvent<HTMLAnchorElement>) => {
    event.currentTarget.href = away ? wholePageAt(to) : linkTo(to); // for a new tab
    if (away || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    showChapter(to);
  };
  return (
    <a
      class={name}
      href={away ? wholePageAt(to) : `#${to}`}
      target={away ? '_blank' : undefined}
      rel={away ? 'noopener' : undefined}
      aria-current={current ? 'location' : undefined}
      onClick={click}
    >
      {children}
      {leaves && ` ${t`(in the long route)`}`}
    </a>
  );
}

/** Scrolls to a chapter and puts it into the address. If the short route lacks it, the page shows
 * everything. The scroll is instant: chapters that load
 * meanwhile change their heights, and a smooth scroll would end at an outdated position. */
export function showChapter(id: string): void {
  const chapter = document.getElementById(id);
  if (chapter === null && route.value === 'short') {
    awaited = id;
    route.value = 'everything';
    return;
  }
  if (chapter) {
    chapter.scrollIntoView({ behavior: 'instant' });
    chapter.focus({ preventScroll: true });
    stayAt(chapter);
  }
  goTo(id);
}

/** The chapter to show as soon as the page has it. */
let awaited: string | undefined;

export function showAwaited(): void {
  if (awaited !== undefined) showChapter(awaited);
  awaited = undefined;
}

const SETTLE_MS = 5000;
let leave: AbortController | undefined;

/** Keeps a chapter's heading in place while chapters above it load, until the
 * reader interacts or scrolls away. */
function stayAt(chapter: Element): void {
  leave?.abort();
  const left = new AbortController();
  leave = left;
  const observer = new ResizeObserver(() => {
    if (Math.abs(chapter.getBoundingClientRect().top) > innerHeight) left.abort();
    else chapter.scrollIntoView({ behavior: 'instant' });
  });
  left.signal.addEventListener('abort', () => observer.disconnect());
  observer.observe(document.body);
  for (const type of ['pointerdown', 'keydown', 'wheel', 'touchstart']) {
    addEventListener(type, () => left.abort(), { passive: true, signal: left.signal });
  }
  setTimeout(() => left.abort(), SETTLE_MS);
}

/** Code to copy. */
export function Code({ name, text }: { name: string; text: string }) {
  return (
    <div class="code">
      <CopyButton label={t`Copy ${name}`} text={() => text} />
      <pre class="card" tabIndex={0} role="region" aria-label={name}>
        <code>{text}</code>
      </pre>
    </div>
  );
}

export function CopyButton({ label, text }: { label: string; text(): string }) {
  const [result, setResult] = useState<'' | 'copied' | 'refused'>('');
  const copy = async () => {
    setResult((await copyText(text())) ? 'copied' : 'refused');
    setTimeout(() => setResult(''), 3000);
  };
  return (
    <span class="copy">
      <Button onClick={copy}>{label}</Button>
      <span class="good" role="status">
        {result === 'copied' && t`Copied`}
      </span>
      <Problem text={result === 'refused' ? t`The browser did not allow it` : ''} />
    </span>
  );
}
