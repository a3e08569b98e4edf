// Checks fields, state and history: a link restores the state, and no link breaks the page.

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  choice,
  type Field,
  FieldError,
  flag,
  number,
  readVector,
  seed,
  subset,
  vector,
} from './fields';
import { canRedo, canUndo, redo, startHistory, undo, withoutHistory } from './history';
import { defineState, Item, readState, resetState, stateText } from './store';

const limits = { minLength: 1, maxLength: 8 };

test('a subset keeps the order of what is known, and names a stranger', () => {
  const field = subset(() => ['none', 'post', 'pre'], ['pre']);
  expect(field.read('pre, none,pre')).toEqual(['none', 'pre']);
  expect(field.write(['none', 'pre'])).toBe('none,pre');
  expect(() => field.read('pre,poost')).toThrow('has “poost”; it may only have none, post, pre');
  expect(() => field.read('')).toThrow(FieldError);
});

describe('a vector', () => {
  test.each([
    '1,2,3,4',
    '1 2 3 4',
    ' [1, 2,3 , 4]\n',
    '(1;2;3;4)',
    '1\t2\n3\n4',
    '1.0 2e0 +3 .4e1',
    'tensor([1., 2., 3., 4.])',
    'np.array([[1, 2, 3, 4]], dtype=float32)',
    "tensor([1, 2, 3, 4], device='cuda:0', dtype=torch.float64)",
    'tensor([1, 2, 3, 4], requires_grad=True)',
    'tensor([[1, 2, 3, 4]], grad_fn=<AddBackward0>)',
  ])('is read from %o', (written) => expect(readVector(written, limits)).toEqual([1, 2, 3, 4]));
  test.each([
    ['', 'is empty'],
    [' , ', 'is empty'],
    ['1 two 3', 'has “two” as item 2'],
    ['1 NaN', 'has “NaN” as item 2, which is not a finite number'],
    ['Infinity', 'is not a finite number'],
    ['1e999', 'is not a finite number'],
    ['1 2 3 4 5 6 7 8 9', 'has 9 values; it must have from 1 to 8'],
    [Array(10000).fill(1).join(), 'has 10,000 values'],
    ['<script>alert(1)</script>', 'as item 1'],
    ['1,5; 2,5', 'has decimal commas'],
    ['[[1, 2], [3, 4]]', 'has “2]” as item 2'],
  ])('is not read from %o', (written, complaint) => {
    expect(() => readVector(written, limits)).toThrow(FieldError);
    expect(() => readVector(written, limits)).toThrow(complaint);
  });
  test('has its bounds named', () => {
    const bounded = { ...limits, minLength: 2, maxLength: 2, min: -1, max: 1 };
    expect(() => readVector('0 1.5', bounded)).toThrow(
      'has 1.5 as item 2; each item must be from −1 to 1',
    );
    expect(() => readVector('-1.5 0', bounded)).toThrow('has -1.5 as item 1');
    expect(readVector('-1 1', bounded)).toEqual([-1, 1]);
    expect(() => readVector('0', bounded)).toThrow('has 1 value; it must have 2');
  });
});

describe('a number', () => {
  const field = number({ min: 0.1, max: 3, step: 0.1, initial: 1 });
  test('may have the minus sign that the page prints', () => {
    expect(readVector('−1.5 2', limits)).toEqual([-1.5, 2]);
  });
  test('is read to the nearest step', () => expect(field.read('0.1234')).toBe(0.1));
  test('has its steps from its smallest value, as a slider has', () => {
    const between = number({ min: 0.05, max: 1, step: 0.1, initial: 0.05 });
    expect(between.read('0.2')).toBe(0.25);
  });
  test('is cut in a complaint if its text is long', () => {
    expect(() => field.read('x'.repeat(24))).toThrow(`“${'x'.repeat(24)}”`);
    expect(() => field.read('x'.repeat(25))).toThrow(`“${'x'.repeat(23)}…”`);
  });
  test('has four digits if it is a seed', () => {
    expect([seed().read('0'), seed().read('9999')]).toEqual([0, 9999]);
    expect(() => seed().read('10000')).toThrow('from 0 to 9999');
  });
  test('is written as a person would', () => expect(field.write(0.1 + 0.2)).toBe('0.3'));
  test.each(['', ' ', 'x', 'NaN', '1e5', '0', '-1'])('is not %o', (written) => {
    expect(() => field.read(written)).toThrow(FieldError);
  });
  test('is whole where the step is 1', () => {
    const whole = number({ min: 1, max: 9, step: 1, initial: 1 });
    expect(() => whole.read('2.5')).toThrow('must be a whole number from 1 to 9');
  });
});

const state = defineState('t', {
  gamma: number({ min: 0, max: 3, step: 0.1, initial: 1 }),
  x: vector([1, 2], limits),
  on: flag(true),
  kind: choice(['layer', 'rms'], 'layer'),
  note: { initial: '', write: (value) => value, read: (value) => value } as Field<string>,
});

describe('the state', () => {
  test('is an empty text at first, and comes back from its text', () => {
    expect(stateText.value).toBe('');
    state.gamma.value = 2.5;
    state.x.value = [0.5, -1, 3];
    state.on.value = false;
    state.kind.value = 'rms';
    state.note.value = 'a&b=c #%ü';
    const written = stateText.value;
    expect(written).toContain('t.x=0.5,-1,3');
    resetState(state);
    expect(stateText.value).toBe('');
    expect(readState(written)).toEqual([]);
    expect(stateText.value).toBe(written);
    expect(state.note.value).toBe('a&b=c #%ü');
    resetState(state);
  });

  test('takes from a mangled link what can be used, and says what cannot', () => {
    const complaints = readState('t.gamma=7&t.x=1,two&t.on=maybe&t.kind=rms&nonsense=1&%%%');
    expect(state.kind.value).toBe('rms');
    expect(state.gamma.value).toBe(1);
    expect(state.gamma.problem.value).toBe('is 7; it must be a number from 0 to 3');
    expect(complaints).toHaveLength(5);
    expect(complaints.join()).toContain('this page has no “nonsense”');
    state.gamma.value = 2;
    expect(state.gamma.problem.value).toBe('');
    resetState(state);
  });
});

test('a refused text goes with the next address, also one with the value that was kept', () => {
  expect(readState('t.gamma=7')).toHaveLength(1);
  expect(readState('')).toEqual([]);
  expect(state.gamma.problem.value).toBe('');
});

test('the name of an unknown value is cut in a complaint', () => {
  expect(readState(`${'n'.repeat(30)}=1`)).toEqual([`this page has no “${'n'.repeat(24)}”`]);
});

test('an error of a field that is no complaint is not taken for one', () => {
  const broken: Field<string> = {
    initial: '',
    write: (value) => value,
    read: () => {
      throw new TypeError('a bug');
    },
  };
  expect(() => new Item(broken).read('1')).toThrow(TypeError);
});

test('a vector keeps every digit in a link, and what is refused stays to be mended', () => {
  state.x.value = [3.14159265358979, 100000.000000123456];
  const written = stateText.value;
  resetState(state);
  readState(written);
  expect(state.x.value).toEqual([3.14159265358979, 100000.000000123456]);
  const before = state.x.value;
  readState(`${written}&t.gamma=2`);
  expect(state.x.value).toBe(before); // the value was not read again
  expect(state.x.read('1 two')).toBe(false);
  expect(state.x.refused.value).toEqual({
    text: '1 two',
    problem: 'has “two” as item 2, which is not a finite number',
  });
  resetState(state);
  expect(state.x.refused.value).toBe(undefined);
});

test('history goes back and forth one gesture at a time', () => {
  vi.useFakeTimers();
  startHistory();
  expect(canUndo.value).toBe(false);
  for (const gamma of [1.1, 1.2, 1.3]) state.gamma.value = gamma; // one drag
  vi.advanceTimersByTime(450);
  state.kind.value = 'rms';
  undo();
  expect([state.kind.value, state.gamma.value]).toEqual(['layer', 1.3]);
  undo();
  expect(state.gamma.value).toBe(1);
  expect(canUndo.value).toBe(false);
  redo();
  redo();
  expect([state.kind.value, state.gamma.value]).toEqual(['rms', 1.3]);
  expect(canRedo.value).toBe(false);
  vi.useRealTimers();
});

test('what is done without history is not undone, and does not join the gesture before it', () => {
  withoutHistory(() => resetState(state));
  vi.useFakeTimers();
  state.gamma.value = 2;
  withoutHistory(() => {
    state.on.value = false;
    state.kind.value = 'rms';
  });
  state.gamma.value = 3;
  undo();
  expect([state.gamma.value, state.on.value, state.kind.value]).toEqual([2, false, 'rms']);
  undo();
  expect([state.gamma.value, state.on.value, state.kind.value]).toEqual([1, true, 'layer']);
  vi.useRealTimers();
});

test('the state of a link is where the history begins', async () => {
  vi.resetModules();
  const [store, history] = [await import('./store'), await import('./history')];
  const { size } = store.defineState('h', {
    size: number({ min: 0, max: 9, step: 1, initial: 1 }),
  });
  store.readState('h.size=5');
  history.startHistory();
  expect(history.canUndo.value).toBe(false);
  size.value = 6;
  history.undo();
  expect(size.value).toBe(5);
  expect(history.canUndo.value).toBe(false);
});

describe('gestures', () => {
  beforeEach(() => {
    vi.useFakeTimers();
    withoutHistory(() => resetState(state));
    while (canUndo.value) undo();
    withoutHistory(() => resetState(state));
  });
  afterEach(() => void vi.useRealTimers());

  /** Drags gamma over these values, with a pause before each. Returns the values after each undo. */
  function undone(values: number[], pause: number): number[] {
    for (const value of values) {
      vi.advanceTimersByTime(pause);
      state.gamma.value = value;
    }
    const found: number[] = [];
    while (canUndo.value) {
      undo();
      found.push(state.gamma.value);
    }
    return found;
  }

  test('changes within 400 ms are one gesture, however long it lasts', () => {
    expect(undone([1.1, 1.2, 1.3, 1.4, 1.5], 390)).toEqual([1]);
  });
  test('changes that are further apart are gestures of their own', () => {
    expect(undone([1.1, 1.2, 1.3], 410)).toEqual([1.2, 1.1, 1]);
  });
  test('a change after undo is a gesture of its own, and ends what could be done again', () => {
    undone([1.1, 1.2], 410);
    redo();
    state.gamma.value = 2;
    expect(canRedo.value).toBe(false);
    expect(undone([], 0)).toEqual([1.1, 1]);
  });
  test('the last 200 gestures can be undone', () => {
    const values = Array.from({ length: 205 }, (_, i) => (i % 2 ? 1.5 : 2.5));
    expect(undone(values, 500)).toHaveLength(200);
  });
});
