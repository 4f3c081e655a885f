import { expect, test } from 'vitest';
import { count } from './quantity';

test('a number has a comma each three digits, as the browser’s own format has it', () => {
  const own = new Intl.NumberFormat('en-US');
  for (const n of [0, 7, 999, 1000, 12_345, 123_456, 1_234_567, 2 ** 53 - 1, 2 ** 60, -5, -999, -1000, -123_456, 1.5, 1234.5678]) expect(count(n)).toBe(own.format(n));
});
