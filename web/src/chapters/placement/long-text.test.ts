import { expect, test } from 'vitest';
import { FieldError } from '../../state/fields';
import { IN_LINK, longText } from './long-text';

const field = longText(5000);

test('a short text stands in the link as it is', () => {
  expect(field.read(field.write('a b\nc'))).toBe('a b\nc');
});

test('a long one has a short name there, which only this page can read', () => {
  const long = 'x'.repeat(IN_LINK + 1);
  const name = field.write(long);
  expect(name.length).toBeLessThan(30);
  expect(field.read(name)).toBe(long);
  expect(field.write(`${long}y`)).not.toBe(name);
  expect(() => longText(5000).read(name)).toThrow(FieldError);
});

test('of many long texts the newest are kept', () => {
  const names = Array.from({ length: 60 }, (_, i) => field.write('x'.repeat(IN_LINK) + i));
  expect(() => field.read(names[0])).toThrow('of 2001 characters was too long for the link');
  expect(field.read(names[59])).toContain('x59');
});

test('too long a text is refused in words', () => {
  const tooLong = () => field.read('x'.repeat(5001));
  expect(tooLong).toThrow('has 5,001 characters; at most 5,000 are allowed');
});
