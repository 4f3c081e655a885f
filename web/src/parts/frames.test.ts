import { expect, test } from 'vitest';
import { firstErrorOf } from './firstError';
import { errors, Frames, output, own, readPieces } from './frames';
import { Finder, Lines } from './lines';

const told = 'stdout 0 0\nstderr 7 0\nstdout 0 4\none\nstderr 7 10\nE 1\nstdoutcomb 0 9\nmissing!\nstdout 20 3\ntwo';

test('pieces of both streams come apart, wherever an answer is cut', () => {
  const bytes = new TextEncoder().encode(told);
  for (let size = 1; size <= bytes.length; size++) {
    const text: string[] = ['', '', ''];
    const at: number[] = [];
    const frames = new Frames((source, offset, p) => {
      text[source] += new TextDecoder().decode(p);
      at[source] = offset + p.length;
    });
    for (let i = 0; i < bytes.length; i += size) frames.take(bytes.subarray(i, i + size));
    expect(text).toEqual(['one\ntwo', 'E 1\nstdout', 'missing!\n']);
    expect(at).toEqual([23, 17, 9]);
  }
});

test('what is no piece is not taken for one', () => {
  for (const bad of ['key 0 4\n', 'stdout x 4\n', 'stdout 0 -1\n', '<html>\n']) expect(() => new Frames(() => {}).take(new TextEncoder().encode(bad))).toThrow('not a piece of a log');
});

test('one stream comes as it is, from the offset of the answer on', async () => {
  const seen: [number, number, string][] = [];
  await readPieces(new Response('text', { headers: { 'Comb-Log-Offset': '40' } }), 'stderr', (...p) => seen.push([p[0], p[1], new TextDecoder().decode(p[2])]));
  expect(seen).toEqual([[errors, 40, ''], [errors, 40, 'text']]);
});

test('lines of two streams do not run into each other, and stand where they began', () => {
  const lines = new Lines();
  const finder = new Finder('loss');
  lines.take('epoch 1 ', output);
  lines.take('10%\r20%', errors);
  expect(finder.find(lines)).toEqual([]);
  lines.take('loss 0.5\nnext\n', output);
  lines.take('\r30%\nlast', errors);
  lines.take('[comb: missing]\n', own);
  expect(lines.list).toEqual(['epoch 1 loss 0.5', '30%', 'next', 'last', '[comb: missing]']);
  expect(lines.from).toEqual([output, errors, output, errors, own]);
  expect(finder.find(lines)).toEqual([0]);
});

test('the first error is what standard error says clearly, else what is likely, else what was said last', () => {
  const first = (...said: [number, string][]) => {
    const lines = new Lines();
    for (const [source, line] of said) lines.take(`${line}\n`, source);
    const at = firstErrorOf(lines);
    return at < 0 ? '' : lines.list[at];
  };
  expect(first([output, 'mean error: 0.3'], [errors, 'warning: failed to find a cache'], [errors, 'Traceback (most recent call last):'], [errors, 'RuntimeError: shapes'])).toBe('Traceback (most recent call last):');
  expect(first([errors, '\u001b[31mRuntimeError\u001b[0m: boom'], [output, 'ValueError: x'])).toContain('boom');
  expect(first([output, 'ValueError: of a pod'], [output, 'end'])).toBe('ValueError: of a pod');
  expect(first([output, 'error 0.3'], [errors, 'sh: 1: trian: not found'])).toBe('sh: 1: trian: not found');
  expect(first([errors, '10%'], [errors, 'giving up'], [errors, ' '], [output, 'bye'])).toBe('giving up');
  expect(first([output, 'error 0.3'], [output, 'bye'])).toBe('');
});
