import { expect, test } from 'vitest';
import { capital, sentence, told } from './sentence';
import { clock, now } from './time';

test('a sentence begins with a capital, and a name stays as it is', () => {
  expect(sentence('held by u')).toBe('Held by u');
  expect(capital('guaranteed: it gets cells')).toBe('Guaranteed: it gets cells');
  expect(sentence('')).toBe('');
  expect(sentence('vision: 0 of 8 GPUs free')).toBe('vision: 0 of 8 GPUs free');
  expect(sentence('vision keeps cells for it', 'vision')).toBe('vision keeps cells for it');
  expect(sentence('visions keep nothing', 'vision')).toBe('Visions keep nothing');
});

test('times of the server’s texts are written as all others', () => {
  const at = Date.UTC(2026, 10, 30, 6, 51, 36);
  expect(told('it is stopped by 2026-11-30T06:51:36Z')).toBe(`it is stopped by ${clock(at * 1000, now())}`);
  expect(told('its time limit of 900 s')).toBe('its time limit of 15 min');
  expect(told('in 20 min 0 s, or 20 min 5 s')).toBe('in 20 min, or 20 min 5 s');
  expect(told('it printed 900 s')).toBe('it printed 900 s');
  expect(told('you may use several: name one with --vc: a, b')).toBe('you may use several: choose one: a, b');
});
