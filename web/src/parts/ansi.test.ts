import { expect, test } from 'vitest';
import { plain, runsOf } from './ansi';

test('what a progress bar sends to a terminal is no text', () => {
  expect(plain('\u001b[?25l\u001b[2K 40 % \u001b[>4;1m\u001b[?25h\u001b(B')).toBe(' 40 % ');
});

test('the numbers of a colour are no codes of their own', () => {
  expect(runsOf('\u001b[38;5;1mloss')).toEqual([{ text: 'loss', colour: '', bold: false }]);
  expect(runsOf('\u001b[48;2;31;1;32mloss')).toEqual([{ text: 'loss', colour: '', bold: false }]);
  expect(runsOf('\u001b[38;5;9;1mloss')).toEqual([{ text: 'loss', colour: '', bold: true }]);
});

test('colours that a log is shown in', () => {
  expect(runsOf('a\u001b[1;31mb\u001b[0mc')).toEqual([
    { text: 'a', colour: '', bold: false },
    { text: 'b', colour: 'var(--failed)', bold: true },
    { text: 'c', colour: '', bold: false },
  ]);
});
