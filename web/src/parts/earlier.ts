import { type LogPlace, openLog } from '../api/jobs';

export interface Earlier {
  text: string; // whole lines
  start: number; // the offset at which they begin, 0 where nothing is before them
}

// earlierOf reads what stands before an offset of a log, so many bytes at most. Where something in it was removed, it is read from the
// log's beginning, of which little is kept then: what came before a gap cannot be asked for by its place.
export async function earlierOf(place: LogPlace, before: number, most: number, signal: AbortSignal, open = openLog): Promise<Earlier> {
  const from = Math.max(0, before - most);
  const read = await upTo(place, from, before, signal, open);
  if (from === 0) return { text: decoded(read.bytes), start: 0 };
  if (read.head !== from) return { text: decoded((await upTo(place, 0, before, signal, open)).bytes), start: 0 };
  const line = read.bytes.indexOf(10) + 1; // the first may be a part of one
  return { text: decoded(read.bytes.subarray(line)), start: from + line };
}

function decoded(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

// upTo reads a log from an offset to another one. The answer's offset and its bytes add up to where a reader is.
async function upTo(place: LogPlace, from: number, to: number, signal: AbortSignal, open: typeof openLog): Promise<{ head: number; bytes: Uint8Array }> {
  const enough = new AbortController();
  const r = await open(place, { offset: from }, AbortSignal.any([signal, enough.signal]), false);
  const head = Number(r.headers.get('Comb-Log-Offset') ?? '0');
  const bytes = new Uint8Array(Math.max(0, to - head));
  let at = 0;
  const reader = r.body?.getReader();
  while (reader && at < bytes.length) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes.set(value.subarray(0, bytes.length - at), at);
    at = Math.min(bytes.length, at + value.length);
  }
  enough.abort();
  return { head, bytes: bytes.subarray(0, at) };
}
