import { expect, test } from 'vitest';
import { Echoes } from './echoes';

test('what was typed comes back late, and is no change from outside', () => {
  const e = new Echoes();
  for (const text of ['a', 'ab', 'abc']) e.tell(text);
  expect(e.hear('ab', 'abc')).toBe(true); // while the editor has abc already
  expect(e.hear('a', 'abc')).toBe(false); // somebody else brings it
  e.tell('x');
  expect(e.hear('y', 'x')).toBe(false);
  expect(e.hear('x', 'y')).toBe(false); // what came from outside has replaced it
});

test('what was typed and taken back is not waited for', () => {
  const e = new Echoes();
  for (const text of ['ab', 'abc', 'ab']) e.tell(text);
  expect(e.hear('ab', 'ab')).toBe(true);
  expect(e.hear('abc', 'ab')).toBe(false);
});
