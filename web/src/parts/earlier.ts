import { type LogPlace, openLog } from '../api/jobs';
import { goOn, own, readPieces } from './frames';
import { Lines } from './lines';

export interface Earlier {
  lines: Lines; // whole ones
  start: number[]; // the offset of each stream at which they begin, 0 where nothing is before them
}

// earlierOf reads what stands before an offset of each stream of a log (0: of one that is not read), so many bytes of each at most.
// Where something in it was removed, it is read from the log's beginning, of which little is kept then: what came before a gap cannot
// be asked for by its place.
export async function earlierOf(place: LogPlace, before: number[], most: number, signal: AbortSignal, open = openLog): Promise<Earlier> {
  const from = before.map((n) => Math.max(0, n - most));
  const read = await upTo(place, from, before, signal, open);
  if (read.jumped && from.some((n) => n > 0)) {
    const all = before.map(() => 0);
    return { lines: linesOf((await upTo(place, all, before, signal, open)).pieces, all), start: all };
  }
  const start = [...from];
  return { lines: linesOf(read.pieces, start), start };
}

interface Piece {
  source: number;
  bytes: Uint8Array;
}

// linesOf makes lines of pieces. Of a stream that does not begin at 0 the first may be a part of one: it is left out, and start moved.
function linesOf(pieces: Piece[], start: number[]): Lines {
  const lines = new Lines();
  const decoders = [new TextDecoder(), new TextDecoder(), new TextDecoder()];
  const inLine = new Set(start.flatMap((n, source) => (n > 0 ? [source] : [])));
  for (const { source, bytes } of pieces) {
    let skip = 0;
    if (inLine.has(source)) {
      const end = bytes.indexOf(10);
      skip = end < 0 ? bytes.length : end + 1;
      start[source] = (start[source] ?? 0) + skip;
      if (end >= 0) inLine.delete(source);
    }
    lines.take(decoders[source]?.decode(bytes.subarray(skip), { stream: true }) ?? '', source);
  }
  return lines;
}

// upTo reads a log from an offset of each stream to another one.
async function upTo(place: LogPlace, from: number[], to: number[], signal: AbortSignal, open: typeof openLog): Promise<{ pieces: Piece[]; jumped: boolean }> {
  const enough = new AbortController();
  const r = await open(place, goOn(place, from), AbortSignal.any([signal, enough.signal]), false);
  const at = [...from];
  const pieces: Piece[] = [];
  let jumped = false;
  try {
    await readPieces(r, place.stream, (source, offset, bytes) => {
      const end = to[source];
      if (source === own) pieces.push({ source, bytes });
      if (end === undefined || source === own) return;
      jumped ||= offset !== at[source];
      at[source] = offset + bytes.length;
      if (offset < end) pieces.push({ source, bytes: bytes.slice(0, end - offset) });
      if (to.every((n, i) => (at[i] ?? 0) >= n)) throw new Enough();
    });
  } catch (e) {
    if (!(e instanceof Enough)) throw e;
  }
  enough.abort();
  return { pieces, jumped };
}

// Enough ends the reading of an answer.
class Enough extends Error {}
