import { expect, test } from 'vitest';
import type { openLog } from '../api/jobs';
import { Reader } from './useLog';

const signal = new AbortController().signal;
const mib = 1 << 20;
const line = (i: number) => `line ${String(i).padStart(6, '0')} ${'x'.repeat(100)}\n`;
const log = Array.from({ length: 30_000 }, (_, i) => line(i)).join(''); // 3.4 MB
const size = line(0).length;

// serving answers for one stream as the server does, and keeps from where it was asked and how much was read.
function serving() {
  const asked: { stream: string; offset: number; read: number }[] = [];
  const open: typeof openLog = async (place, from) => {
    const offset = 'offset' in from ? from.offset : log.length - from.tail * size;
    const one = { stream: place.stream, offset, read: 0 };
    asked.push(one);
    const bytes = new TextEncoder().encode(log.slice(offset));
    const body = new ReadableStream<Uint8Array>({
      pull(c) {
        const piece = bytes.slice(one.read, one.read + 65_536);
        one.read += piece.length;
        if (piece.length > 0) c.enqueue(piece);
        else c.close();
      },
    });
    return new Response(body, { headers: { 'Comb-Log-Offset': String(offset) } });
  };
  return { asked, open };
}

test.each(['stdout', 'stderr'])('earlier lines of %s alone come a piece at a time, to the first, and no byte twice', async (stream) => {
  const { asked, open } = serving();
  const place = { ref: '1', role: 'main', index: 0, stream, attempt: 1 };
  const reader = new Reader(open);
  await reader.read(place, signal, () => {});
  expect(reader.cut).toBe(true);
  expect(reader.lines.list).toHaveLength(10_000);

  const before: number[] = [];
  while (reader.before) {
    await reader.before(place, signal);
    before.push(reader.lines.list.length);
    expect(before.length).toBeLessThan(5);
  }
  const piece = Math.floor(mib / size); // whole lines of a piece
  expect(before).toEqual([10_000 + piece, 10_000 + 2 * piece, 30_000]);
  expect(reader.lines.list).toEqual(log.trimEnd().split('\n'));
  expect(reader.cut).toBe(false);
  expect(asked.slice(1).map((a) => a.offset)).toEqual([20_000 * size - mib, (20_000 - piece) * size - mib, 0]);
  for (const a of asked.slice(1)) expect(a.read).toBeLessThan(mib + 4 * 65_536); // and not the log to its end
});
