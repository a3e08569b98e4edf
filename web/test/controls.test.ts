// Every control of the page, used by mouse, keyboard and touch: it must change something, and nothing may fail.

import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { CHAPTERS, LONG, chapter, measured, openPage } from './page';

const CONTROLS =
  'button, input, select, textarea, summary, [role=slider], [role=spinbutton], [role=button]';
const FRAME = '.skip-link, header, .toolbar, .hero, nav, footer';
type Hand = 'mouse' | 'keyboard' | 'touch';
const HANDS: Hand[] = ['mouse', 'keyboard', 'touch'];

/** A kind of control, which decides how it is used. */
type Kind = 'check' | 'menu' | 'number' | 'press' | 'radio' | 'range' | 'slider' | 'text';

/** Everything that a reader can notice of a page, without the marks of this test. */
function look(): string {
  const fields = [...document.querySelectorAll<HTMLInputElement>('input, select, textarea')];
  const states = fields.map(({ value, checked }) => `${value}${checked}`);
  return [location.href, scrollY, document.documentElement.outerHTML, ...states].join('\n');
}

/** Marks the controls of a part of the page by their numbers, and returns how many there are. Folded parts open. */
function mark([scope, controls]: [string, string]): number {
  const parts = [...document.querySelectorAll<HTMLElement>(scope)];
  for (const part of parts) {
    for (const fold of part.querySelectorAll('details:not(.save-menu)')) {
      (fold as HTMLDetailsElement).open = true;
    }
  }
  const all = parts.flatMap((part) => [...part.querySelectorAll<HTMLElement>(controls)]);
  const usable = [...new Set(all)].filter(
    (control) => !control.matches(':disabled') && control.checkVisibility(),
  );
  usable.forEach((control, index) => (control.dataset.walk = `${index}`));
  return usable.length;
}

/** The kind of a control. */
function kindOf(control: Element): Kind {
  if (control.getAttribute('role') === 'slider') return 'slider';
  if (control.getAttribute('role') === 'spinbutton') return 'number';
  if (control instanceof HTMLSelectElement) return 'menu';
  if (control instanceof HTMLTextAreaElement) return 'text';
  if (!(control instanceof HTMLInputElement)) return 'press';
  const kinds: Record<string, Kind> = {
    radio: 'radio',
    checkbox: 'check',
    range: 'range',
    number: 'number',
  };
  return kinds[control.type] ?? 'text';
}

/** A control in words, for messages. */
function described(control: Element): string {
  const label = (control as HTMLInputElement).labels?.[0]?.textContent;
  const name = control.getAttribute('aria-label') ?? label ?? control.textContent ?? '';
  return `${control.tagName.toLowerCase()} “${name.trim().slice(0, 60)}”`;
}

class Walk {
  private page!: Page;
  private happened = false; // a file was saved, or a window opened
  count = 0;

  constructor(
    private readonly part: string,
    private readonly hand: Hand,
  ) {}

  /** Opens the page anew and marks its controls. */
  async open(): Promise<void> {
    await this.page?.context().close();
    const isChapter = CHAPTERS.includes(this.part);
    this.page = await openPage(isChapter ? `#${this.part}` : '', {
      touch: this.hand === 'touch',
      before: () => (window.print = () => document.body.setAttribute('data-printed', '')),
    });
    if (isChapter) await measured(chapter(this.page, this.part));
    this.page.on('download', () => (this.happened = true));
    this.page.on('popup', (opened) => {
      this.happened = true;
      void opened.close();
    });
    const scope = isChapter ? `section#${this.part}` : FRAME;
    this.count = await this.page.evaluate(mark, [scope, CONTROLS] as [string, string]);
  }

  /** Returns control `index`, in a new page if an earlier one has removed it. */
  private async control(index: number): Promise<Locator> {
    const control = () => this.page.locator(`[data-walk="${index}"]`);
    const isThere = (await control().count()) === 1 && (await control().isEnabled());
    if (!isThere || !(await control().isVisible())) await this.open();
    return control();
  }

  /** Uses a control. Returns what it is, and whether the page then looks different. */
  async use(index: number): Promise<{ name: string; changes: boolean }> {
    const control = await this.control(index);
    await this.closeDefinition();
    const name = await control.evaluate(described);
    const kind = await control.evaluate(kindOf);
    if (kind === 'radio' && (await control.isChecked())) return { name, changes: true };
    await control.scrollIntoViewIfNeeded();
    if (await this.changes(() => this.act(control, kind))) return { name, changes: true };
    // A button that undoes changes has nothing to undo yet.
    await this.changeAnything(index);
    const again = await this.control(index);
    return { name, changes: await this.changes(() => this.act(again, kind)) };
  }

  /** Closes the definition of a word, which may cover the next control. A pointer that leaves it, and a focus that
   * moves, close it without this. */
  private async closeDefinition(): Promise<void> {
    const definition = this.page.locator('.term-tip');
    if (this.hand !== 'touch' || (await definition.count()) === 0) return;
    await definition.tap();
    expect(await definition.count()).toBe(0);
  }

  /** Does something, and says whether anything changed within eight seconds. */
  private async changes(action: () => Promise<void>): Promise<boolean> {
    this.happened = false;
    const before = await this.settled();
    await action();
    for (let attempt = 0; attempt < 80; ++attempt) {
      if (this.happened || (await this.page.evaluate(look)) !== before) return true;
      await this.page.waitForTimeout(100);
    }
    return false;
  }

  /** Waits until nothing moves any more, and returns what the page looks like. */
  private async settled(): Promise<string> {
    let now = await this.page.evaluate(look);
    for (let attempt = 0; attempt < 50; ++attempt) {
      await this.page.waitForTimeout(30);
      const next = await this.page.evaluate(look);
      if (next === now) break;
      now = next;
    }
    return now;
  }

  /** Moves another control of the same part of the page: the first slider or box. */
  private async changeAnything(not: number): Promise<void> {
    const others = this.page.locator(
      `[data-walk]:is([type=range], [role=slider], [type=checkbox]):not([data-walk="${not}"])`,
    );
    for (const other of await others.all()) {
      if (!(await other.isVisible()) || !(await other.isEnabled())) continue;
      const kind = await other.evaluate(kindOf);
      await other.focus();
      return this.page.keyboard.press(kind === 'check' ? 'Space' : 'ArrowUp');
    }
  }

  private async act(control: Locator, kind: Kind): Promise<void> {
    if (kind === 'text' || kind === 'number') return this.type(control, kind);
    if (this.hand === 'keyboard' || kind === 'menu' || kind === 'slider') {
      return this.press(control, kind);
    }
    const point = (at: Locator, position?: { x: number; y: number }) =>
      this.hand === 'touch' ? at.tap({ position }) : at.click({ position });
    if (kind === 'range') {
      const { width, height } = (await control.boundingBox())!;
      const value = await control.inputValue();
      await point(control, { x: width / 4, y: height / 2 });
      if ((await control.inputValue()) === value) {
        await point(control, { x: (width * 3) / 4, y: height / 2 });
      }
    } else if (kind === 'radio' || kind === 'check') {
      const label = control.locator('xpath=ancestor::label');
      await point((await label.count()) > 0 ? label.first() : control);
    } else {
      await point(control);
    }
  }

  private async press(control: Locator, kind: Kind): Promise<void> {
    await control.focus();
    const keys = this.page.keyboard;
    if (kind === 'press') return keys.press('Enter');
    if (kind === 'check' || kind === 'radio') return keys.press('Space');
    if (kind !== 'menu') {
      await keys.press('ArrowUp');
      return keys.press(kind === 'range' ? 'ArrowRight' : 'ArrowUp');
    }
    const value = await control.inputValue();
    await keys.press('ArrowDown');
    const isThere = (await control.count()) === 1; // another language draws the page anew
    if (isThere && (await control.inputValue()) === value) await keys.press('ArrowUp');
  }

  private async type(control: Locator, kind: Kind): Promise<void> {
    if (this.hand === 'touch') await control.tap();
    else if (this.hand === 'mouse') await control.click();
    else await control.focus();
    await this.page.keyboard.press('End');
    await this.page.keyboard.type(kind === 'number' ? '1' : ' a');
    await this.page.keyboard.press('Tab');
  }
}

const walks = ['frame', ...CHAPTERS].flatMap((part) => HANDS.map((hand) => [part, hand] as const));

test.each(walks)(
  '%s: every control does something, by %s',
  { ...LONG, timeout: 600_000 },
  async (part, hand) => {
    const walk = new Walk(part, hand);
    await walk.open();
    const idle: string[] = [];
    const { count } = walk;
    for (let index = 0; index < count; ++index) {
      const { name, changes } = await walk.use(index);
      if (!changes) idle.push(`${index}: ${name}`);
    }
    console.info(`${part}, ${hand}: ${count} controls`);
    expect(count).toBeGreaterThan(0);
    expect(idle).toEqual([]);
  },
);
