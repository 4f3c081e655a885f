import { expect, test } from 'vitest';
import { count, ordinal } from './quantity';

test('a number has a comma each three digits, as the browser’s own format has it', () => {
  const own = new Intl.NumberFormat('en-US');
  for (const n of [0, 7, 999, 1000, 12_345, 123_456, 1_234_567, 2 ** 53 - 1, 2 ** 60, -5, -999, -1000, -123_456, 1.5, 1234.5678]) expect(count(n)).toBe(own.format(n));
});

test('an ordinal has the ending that it is read with', () => {
  expect([1, 2, 3, 4, 10, 11, 12, 13, 21, 22, 101, 111, 1002].map(ordinal)).toEqual(['1st', '2nd', '3rd', '4th', '10th', '11th', '12th', '13th', '21st', '22nd', '101st', '111th', '1,002nd']);
});
