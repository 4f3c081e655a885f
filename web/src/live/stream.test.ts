import { expect, test } from 'vitest';
import { pause } from './stream';

test('a refused stream is asked for again when the server says, and not at once', () => {
  expect(pause(0, null)).toBe(500);
  expect(pause(200, null)).toBe(500);
  expect(pause(401, null)).toBe(15_000);
  expect(pause(503, '12')).toBe(12_000);
  expect(pause(503, null)).toBe(5000);
  expect(pause(429, 'Thu, 26 Nov 2026 10:00:00 GMT')).toBe(5000);
  expect(pause(503, '86400')).toBe(60_000);
});
