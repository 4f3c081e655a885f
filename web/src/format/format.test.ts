import { expect, test } from 'vitest';
import { when } from './ago';
import { bytes, plural } from './quantity';
import { clock, duration, precise, stamp } from './time';

const s = 1_000_000;
const min = 60 * s;
const h = 60 * min;
const d = 24 * h;
const at = (...when: [number, number, number, number?, number?, number?]) => new Date(...when).getTime() * 1000;
const noon = at(2026, 4, 5, 12, 0, 0);

test('durations have two units at most, and none is rounded up', () => {
  const said: [number, string][] = [
    [-5, '0 s'], [0, '0 s'], [s - 1, '0 s'], [59 * s, '59 s'], [min, '1 min'], [h - 1, '59 min'], [h, '1 h 00 min'], [3 * h + 5 * min, '3 h 05 min'],
    [d - 1, '23 h 59 min'], [d, '1 d 0 h'], [2 * d + 4 * h + 59 * min, '2 d 4 h'],
  ];
  for (const [micros, words] of said) expect(duration(micros)).toBe(words);
});

test('a time of day is as short as it is clear', () => {
  expect(clock(at(2026, 4, 5, 9, 5), noon)).toBe('09:05');
  expect(clock(at(2026, 4, 4, 23, 59), noon)).toBe('Mon 23:59');
  expect(clock(at(2026, 4, 8, 0, 0), noon)).toBe('Fri 00:00');
  expect(clock(at(2026, 2, 12, 14, 20), noon)).toBe('12 Mar 14:20');
  expect(clock(at(2025, 2, 12, 14, 20), noon)).toBe('12 Mar 2025');
});

test('a point in time: how far it is within an hour, else the clock', () => {
  expect(when(noon - 5 * min, noon)).toBe('5 min ago');
  expect(when(noon, noon)).toBe('0 s ago');
  expect(when(noon + s - 1, noon)).toBe('0 s ago');
  expect(when(noon + s, noon)).toBe('in 1 s');
  expect(when(noon + 59 * min, noon)).toBe('in 59 min');
  expect(when(noon + h, noon)).toBe('13:00');
  expect(when(noon - h, noon)).toBe('11:00');
});

test('a stamp is to the second, and names another day', () => {
  expect(stamp(at(2026, 4, 5, 9, 5, 7), noon)).toBe('09:05:07');
  expect(stamp(at(2026, 4, 4, 9, 5, 7), noon)).toBe('4 May 09:05:07');
});

test('a time in full has the year and the seconds; what is no time has a dash', () => {
  expect(precise(noon)).toMatch(/5 May 2026.*12:00:00/);
  expect(precise(Number.NaN)).toBe('–');
});

test('numbers with their nouns, and sizes', () => {
  expect([plural(0, 'job'), plural(1, 'job'), plural(1200, 'job'), plural(2, 'child', 'children')]).toEqual(['0 jobs', '1 job', '1,200 jobs', '2 children']);
  expect([0, 1023, 1024, 10 * 1024, 20.4 * 2 ** 20, 2 ** 40, 2 ** 53].map(bytes)).toEqual(['0 B', '1023 B', '1.0 KiB', '10 KiB', '20 MiB', '1.0 TiB', '8192 TiB']);
});
