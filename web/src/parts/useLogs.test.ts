import { expect, test } from 'vitest';
import { Lines } from './lines';
import { Part } from './useLogs';

const place = { ref: '1', role: 'worker', index: 0, stream: 'stdout', attempt: 0 };

test('lines of several tasks do not run into each other', () => {
  const lines = new Lines();
  const a = new Part('worker-0', place);
  const b = new Part('worker-1', place);
  expect(a.take('step 1\nste', lines)).toBe(true);
  expect(b.take('half', lines)).toBe(false);
  a.take('p 2\n', lines);
  b.end(lines);
  a.end(lines);
  expect(lines.list).toEqual(['worker-0 | step 1', 'worker-0 | step 2', 'worker-1 | half']);
});

