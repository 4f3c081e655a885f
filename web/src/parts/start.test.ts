import { expect, test } from 'vitest';
import { startWords } from './start';

const min = 60_000_000;
const now = new Date(2026, 4, 5, 12, 0).getTime() * 1000;
const words = (earliest: number, latest: number) => startWords(earliest && now + earliest * min, latest && now + latest * min, now);

test('when a job starts, in one unit where both ends have it', () => {
  expect(words(12, 20)).toBe('in about 12 to 20 min');
  expect(words(0.5, 20)).toBe('in about 30 s to 20 min');
  expect(words(12, 12.5)).toBe('in about 12 min');
  expect(words(12, 0)).toBe('in about 12 min');
});

test('what is an hour away or more is told by the clock', () => {
  expect(words(90, 0)).toBe('about 13:30');
  expect(words(12, 90)).toBe('between about 12:12 and 13:30');
  expect(words(0, 20)).toBe('at the latest in 20 min');
  expect(words(0, 90)).toBe('at the latest 13:30');
});

test('what could start already', () => {
  expect(words(-1, 0)).toBe('at any moment');
  expect(words(-1, 8)).toBe('at any moment, at the latest in 8 min');
  expect(words(-5, -3)).toBe('at any moment');
});
