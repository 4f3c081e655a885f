import { expect, test } from 'vitest';
import type { openLog } from '../api/jobs';
import { earlierOf } from './earlier';

const place = { ref: '1', role: 'main', index: 0, stream: 'stdout', attempt: 1 };
const signal = new AbortController().signal;

// serving answers as the server does: from an offset on, in pieces of some bytes; of what was removed it has one line.
function serving(log: string, gap?: { from: number; to: number }) {
  const asked: number[] = [];
  const open: typeof openLog = async (_, from) => {
    const offset = 'offset' in from ? from.offset : 0;
    asked.push(offset);
    const told = gap && offset < gap.to ? `${log.slice(offset, gap.from)}[removed]\n${log.slice(gap.to)}` : log.slice(offset);
    const bytes = new TextEncoder().encode(told);
    const body = new ReadableStream<Uint8Array>({
      start(c) {
        for (let i = 0; i < bytes.length; i += 7) c.enqueue(bytes.slice(i, i + 7));
        c.close();
      },
    });
    return new Response(body, { headers: { 'Comb-Log-Offset': String(log.length - bytes.length) } });
  };
  return { asked, open };
}

// read is what earlierOf gives, as text.
async function read(before: number, most: number, open: typeof openLog) {
  const { lines, start } = await earlierOf(place, [before], most, signal, open);
  return { text: lines.list.join('\n'), start: start[0] ?? -1 };
}

const log = Array.from({ length: 100 }, (_, i) => `line ${i}\n`).join('');

test('what stands before an offset, in whole lines, to the beginning', async () => {
  const { open } = serving(log);
  const at = log.indexOf('line 50');
  const first = await read(at, 100, open);
  expect(first.text).toMatch(/^line 38\n[^]*line 49$/);
  expect(log.slice(first.start).startsWith('line 38\n')).toBe(true);
  const next = await read(first.start, 1000, open);
  expect(next).toEqual({ text: log.slice(0, first.start - 1), start: 0 });
});

test('a line that is longer than what is read at once', async () => {
  const { open } = serving('x'.repeat(50) + '\nend\n');
  expect(await read(51, 20, open)).toEqual({ text: '', start: 51 });
});

test('where something was removed, from the beginning on', async () => {
  const { asked, open } = serving(log, { from: log.indexOf('line 2\n'), to: log.indexOf('line 40') });
  const before = await read(log.indexOf('line 50'), 200, open);
  expect(before.text).toMatch(/^line 0\nline 1\n\[removed\]\nline 40\n[^]*line 49$/);
  expect(before.start).toBe(0);
  expect(asked).toEqual([log.indexOf('line 50') - 200, 0]);
});

test('of both streams, each to its offset, without the part of a line with which either begins', async () => {
  const told = 'stdout 6 0\nstderr 4 0\nstdout 6 9\nne\nout 2\nstderr 4 13\nor 1\nerror 2\nstdout 15 12\nout 3\nout 4\n';
  const { lines, start } = await earlierOf({ ...place, stream: 'both' }, [21, 17], 15, signal, async (_, from) => {
    expect(from).toEqual({ offset: 6, errors: 2 });
    return new Response(told.replaceAll('stderr 4', 'stderr 2').replace('13\nor 1', '15\nrror 1'));
  });
  expect(lines.list).toEqual(['out 2', 'error 2', 'out 3']);
  expect(lines.from).toEqual([0, 1, 0]);
  expect(start).toEqual([9, 9]);
});
