// The controls of the page, each with its label, and with what is wrong beside it.

import type { ComponentChildren, TargetedMouseEvent } from 'preact';
import { useId, useState } from 'preact/hooks';
import type { Range } from '../state/fields';
import { goTo, linkTo } from '../state/link';
import type { Item } from '../state/store';
import { tidy } from '../state/fields';

export function Problem({ id, text }: { id?: string; text: string }) {
  return (
    <span class="problem" id={id} role="status">
      {text}
    </span>
  );
}

interface ControlProps<T> {
  label: string;
  item: Pick<Item<T>, 'value' | 'problem'>;
}

export interface SliderProps extends ControlProps<number>, Omit<Range, 'initial'> {
  /** The value as it is shown; by default as a number. */
  format?(value: number): string;
}

export function Slider({ label, item, min, max, step, format = String }: SliderProps) {
  const id = useId();
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

export function Checkbox({ label, item }: ControlProps<boolean>) {
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

export interface ChoiceProps<V extends string> extends ControlProps<V> {
  options: readonly { value: V; label: string }[];
}

/** One of a few, all in sight. */
export function Choice<V extends string>({ label, item, options }: ChoiceProps<V>) {
  const name = useId();
  return (
    <fieldset class="control choice">
      <legend>{label}</legend>
      {options.map(({ value, label: text }) => (
        <label key={value}>
          <input
            type="radio"
            name={name}
            value={value}
            checked={item.value === value}
            onChange={() => (item.value = value)}
          />
          <span>{text}</span>
        </label>
      ))}
      <Problem text={item.problem.value} />
    </fieldset>
  );
}

export interface ChoicesProps extends ControlProps<readonly string[]> {
  options: readonly string[];
}

/** Some of a few, at least one. */
export function Choices({ label, item, options }: ChoicesProps) {
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

/** One of several, in a list that opens. */
export function Select<V extends string>({ label, item, options }: ChoiceProps<V>) {
  const id = useId();
  return (
    <div class="control select">
      <label for={id}>{label}</label>
      <select
        id={id}
        value={item.value}
        onChange={(event) => (item.value = options[event.currentTarget.selectedIndex].value)}
      >
        {options.map(({ value, label: text }) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
      <Problem text={item.problem.value} />
    </div>
  );
}

export interface TextFieldProps<T> extends ControlProps<T> {
  item: Item<T>;
  rows?: number; // more than one: a text area
  hint?: string;
  /** The value as it stands in the box; by default as in a link. */
  format?(value: T): string;
  /** What is wrong with the value beside others, as the end of a sentence. */
  problem?: string;
}

/** Text that is read at each keystroke; the value stays the last one that could be used. */
export function TextField<T>(props: TextFieldProps<T>) {
  const { label, item, rows = 1, hint, format } = props;
  const problem = item.problem.value || props.problem;
  const id = useId();
  const write = () => format?.(item.value) ?? item.text;
  const shown = write();
  // What the reader typed stays as typed until the value changes elsewhere: dragged, reset, undone.
  const [typed, setTyped] = useState({ text: shown, shown });
  const text = item.refused.value?.text ?? (typed.shown === shown ? typed.text : shown);
  const kept = item.refused.value ? ' The last one that could be used stays in use.' : '';
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
  return (
    <div class="control text-field">
      <label for={id}>{label}</label>
      {rows > 1 ? <textarea {...attributes} rows={rows} /> : <input type="text" {...attributes} />}
      {hint && <span class="hint">{hint}</span>}
      <Problem id={`${id}-problem`} text={problem ? `${label} ${problem}.${kept}` : ''} />
    </div>
  );
}

export interface ButtonProps {
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

/** A link to another chapter that keeps the state. */
export function ChapterLink(props: { to: string; class?: string; children: ComponentChildren }) {
  const { to, children } = props;
  const click = (event: TargetedMouseEvent<HTMLAnchorElement>) => {
    event.currentTarget.href = linkTo(to); // for a new tab
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    showChapter(to);
  };
  return (
    <a class={props.class} href={`#${to}`} onClick={click}>
      {children}
    </a>
  );
}

/** Scrolls to a chapter, and puts it into the address. */
export function showChapter(id: string): void {
  const chapter = document.getElementById(id);
  chapter?.scrollIntoView();
  chapter?.focus({ preventScroll: true });
  goTo(id);
}

/** Code to copy. */
export function Code({ name, text }: { name: string; text: string }) {
  return (
    <div class="code">
      <CopyButton label={`Copy ${name}`} text={() => text} />
      <pre tabIndex={0} role="region" aria-label={name}>
        <code>{text}</code>
      </pre>
    </div>
  );
}

export function CopyButton({ label, text }: { label: string; text(): string }) {
  const [result, setResult] = useState<'' | 'copied' | 'refused'>('');
  const copy = async () => {
    const copied = await navigator.clipboard?.writeText(text()).then(
      () => true,
      () => false,
    );
    setResult(copied ? 'copied' : 'refused');
    setTimeout(() => setResult(''), 3000);
  };
  return (
    <span class="copy">
      <Button onClick={copy}>{label}</Button>
      <span class="done" role="status">
        {result === 'copied' && 'Copied'}
      </span>
      <Problem text={result === 'refused' ? 'The browser did not allow it' : ''} />
    </span>
  );
}
