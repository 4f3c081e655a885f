import { expect, test } from 'vitest';
import { Lines, longest } from './lines';
import { Part, renewed } from './useLogs';

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

test('a progress bar is one line behind its task’s name', () => {
  const lines = new Lines();
  const a = new Part('worker-0', place);
  for (let i = 0; i <= 100; i++) a.take(`\r${i}%`, lines);
  a.take('\r\nnext\r', lines);
  a.take('\nten%\rdone\n', lines);
  expect(lines.list).toEqual(['worker-0 | 100%', 'worker-0 | next', 'worker-0 | done']);
});

test('a task that never ends its line is not kept as a whole', () => {
  const lines = new Lines();
  const a = new Part('worker-0', place);
  for (let i = 0; i < 100; i++) a.take('x'.repeat(1000), lines);
  a.end(lines);
  expect(lines.list.length).toBe(13);
  expect(lines.list.every((l) => l.startsWith('worker-0 | x') && l.length <= longest)).toBe(true);
  expect(lines.list.map((l) => l.length - 'worker-0 | '.length).reduce((x, y) => x + y, 0)).toBe(100_000);
});

test('a task that begins anew leaves the lines of the others', () => {
  const lines = new Lines();
  const at = (index: number, attempt: number) => ({ name: `worker-${index}`, place: { ...place, index, attempt } });
  const before = renewed([], [at(0, 1), at(1, 1)], lines);
  before[1]?.take('cut off', lines);
  const after = renewed(before, [at(0, 1), at(1, 2)], lines);
  expect(after[0]).toBe(before[0]);
  expect(after[1]).not.toBe(before[1]);
  expect(lines.list).toEqual(['worker-1 | cut off']);
});
