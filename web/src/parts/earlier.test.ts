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

const log = Array.from({ length: 100 }, (_, i) => `line ${i}\n`).join('');

test('what stands before an offset, in whole lines, to the beginning', async () => {
  const { open } = serving(log);
  const at = log.indexOf('line 50');
  const first = await earlierOf(place, at, 100, signal, open);
  expect(first.text).toMatch(/^line 38\n[^]*line 49\n$/);
  expect(log.slice(first.start).startsWith('line 38\n')).toBe(true);
  const next = await earlierOf(place, first.start, 1000, signal, open);
  expect(next).toEqual({ text: log.slice(0, first.start), start: 0 });
});

test('a line that is longer than what is read at once', async () => {
  const { open } = serving('x'.repeat(50) + '\nend\n');
  expect(await earlierOf(place, 51, 20, signal, open)).toEqual({ text: '', start: 51 });
});

test('where something was removed, from the beginning on', async () => {
  const { asked, open } = serving(log, { from: log.indexOf('line 2\n'), to: log.indexOf('line 40') });
  const before = await earlierOf(place, log.indexOf('line 50'), 200, signal, open);
  expect(before.text).toMatch(/^line 0\nline 1\n\[removed\]\nline 40\n[^]*line 49\n$/);
  expect(before.start).toBe(0);
  expect(asked).toEqual([log.indexOf('line 50') - 200, 0]);
});
