// Checks the texts of the hero that depend on its switches.

import { renderToString } from 'preact-render-to-string';
import { beforeEach, expect, test } from 'vitest';
import { resetState } from '../state/store';
import { state } from './state';
import { Hero } from './view';

beforeEach(() => resetState(state));

/** The visible text of the hero. Alternatives that are not chosen are hidden. */
function shown(): string {
  const page = renderToString(<Hero title="" introduction="" />);
  return page.replace(/<span[^>]* aria-hidden="true"[^>]*>.*?<\/span>/g, '').replace(/<.*?>/g, '');
}

test('the hint says where the norm stands only while there is one', () => {
  expect(shown()).toContain('The norm stands before each sublayer, as in GPT-2');
  state.add.value = false;
  expect(shown()).toContain('The norm stands before each sublayer. With Add off');
  expect(shown()).not.toContain('may grow');
  state.norm.value = false;
  for (const add of [false, true]) {
    state.add.value = add;
    expect(shown()).toContain('The norm is off');
    expect(shown()).not.toContain('The norm stands');
  }
});
