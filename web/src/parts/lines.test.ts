import { expect, test } from 'vitest';
import { Finder, keptLines, Lines, longest, nextOf } from './lines';

function linesOf(...texts: string[]): string[] {
  const log = new Lines();
  for (const t of texts) log.take(t);
  return log.list;
}

function taken(text: string): Lines {
  const lines = new Lines();
  lines.take(text);
  return lines;
}

test('lines come in any pieces', () => {
  const text = 'one\ntwo\r\n\n10%\r20%\rdone\nlast';
  const want = ['one', 'two', '', 'done', 'last'];
  expect(linesOf(text)).toEqual(want);
  expect(linesOf(...text)).toEqual(want);
  for (let i = 0; i <= text.length; i++) expect(linesOf(text.slice(0, i), text.slice(i))).toEqual(want);
});

test('a progress bar is one line, and shows its last step', () => {
  const log = new Lines();
  for (let i = 0; i <= 100; i++) {
    log.take(`${i}%\r`);
    expect(log.list).toEqual([`${i}%`]);
  }
  log.take('\n');
  expect(log.list).toEqual(['100%']);
});

test('a log without line feeds is cut into lines, each looked at once', () => {
  const log = new Lines();
  const piece = 'x'.repeat(1000);
  for (let i = 0; i < 100; i++) log.take(piece);
  expect(log.list.map((l) => l.length)).toEqual([...Array<number>(12).fill(longest), 100_000 - 12 * longest]);
  log.take(`${'y'.repeat(3 * longest)}\nnext`);
  expect(log.list.join('')).toBe(`${'x'.repeat(100_000)}${'y'.repeat(3 * longest)}next`);
  expect(Math.max(...log.list.map((l) => l.length))).toBe(longest);
});

test('only the last lines are kept, by number and by size', () => {
  const many = new Lines();
  many.take('line\n'.repeat(keptLines + 5));
  expect([many.list.length, many.gone]).toEqual([keptLines, 5]);
  const big = new Lines();
  for (let i = 0; i < 50; i++) big.take('z'.repeat(1 << 20));
  expect(big.list.reduce((n, l) => n + l.length, 0)).toBe(32 << 20);
  expect(big.gone).toBe((18 << 20) / longest);
});

test('found lines keep their places while the log grows and its beginning goes', () => {
  const log = new Lines();
  const finder = new Finder('B');
  log.take('a\nb\n\u001b[31mab\u001b[0m\nc');
  expect(finder.find(log)).toEqual([1, 2]);
  expect(finder.find(log)).toEqual([1, 2]);
  log.take('b\nd\nb');
  expect(finder.find(log)).toEqual([1, 2, 3, 5]);
  log.take('\rno');
  expect(finder.find(log)).toEqual([1, 2, 3]);
  log.take(`\n${'x\n'.repeat(keptLines - 4)}`);
  expect(log.gone).toBe(2);
  expect(finder.find(log)).toEqual([0, 1]);
});

test('earlier lines come before the others, and are searched, too', () => {
  const log = new Lines();
  const finder = new Finder('b');
  log.take('c\nb\nd');
  expect(finder.find(log)).toEqual([1]);
  log.before(taken('a\nb\n'));
  expect([log.list, log.gone, log.dropped]).toEqual([['a', 'b', 'c', 'b', 'd'], -2, false]);
  expect(finder.find(log)).toEqual([1, 3]);
  log.take('b\nb');
  expect(finder.find(log)).toEqual([1, 3, 4, 5]);
  log.before(taken('x\n'.repeat(keptLines)));
  expect([log.list.length, log.dropped, log.list.at(-1)]).toEqual([keptLines, true, 'b']);
  expect(finder.find(log)).toEqual([keptLines - 5, keptLines - 3, keptLines - 2, keptLines - 1]);
});

test('from one line that was found to the next, and around', () => {
  const found = [3, 7, 20];
  expect(nextOf(found, -1, false)).toBe(2); // a log is read from its end
  expect(nextOf(found, -1, true)).toBe(2);
  expect(nextOf(found, 3, false)).toBe(1);
  expect(nextOf(found, 20, false)).toBe(0);
  expect(nextOf(found, 3, true)).toBe(2);
  expect(nextOf(found, 10, true)).toBe(1); // the line before was dropped, or is of another text
  expect(nextOf([], 5, false)).toBe(0);
});
