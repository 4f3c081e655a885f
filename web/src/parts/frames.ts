import type { LogPlace } from '../api/jobs';

// Which stream of a task a piece of its log is of.
export const output = 0;
export const errors = 1;
export const own = 2; // the server's word on what is missing

export type Piece = (source: number, offset: number, bytes: Uint8Array) => void;

const names = ['stdout', 'stderr', 'comb'];

// Frames takes the pieces of a log with both streams apart: each stands behind a line STREAM OFFSET BYTES.
export class Frames {
  private head = ''; // of such a line, as far as it has come
  private source = output;
  private offset = 0;
  private left = 0; // bytes of the piece that are to come
  private readonly on: Piece;

  constructor(on: Piece) {
    this.on = on;
  }

  take(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) {
      if (this.left === 0) {
        const end = bytes.indexOf(10, at);
        this.head += new TextDecoder().decode(bytes.subarray(at, end < 0 ? bytes.length : end));
        if (end < 0) return;
        at = end + 1;
        this.begin();
        continue;
      }
      const piece = bytes.subarray(at, at + this.left);
      this.on(this.source, this.offset, piece);
      this.offset += piece.length;
      this.left -= piece.length;
      at += piece.length;
    }
  }

  private begin(): void {
    const [stream = '', offset, left] = this.head.split(' ');
    this.head = '';
    this.source = names.indexOf(stream);
    this.offset = Number(offset);
    this.left = Number(left);
    if (this.source < 0 || !Number.isSafeInteger(this.offset) || !Number.isSafeInteger(this.left) || this.left < 0) throw new Error(`not a piece of a log: ${stream}`);
    if (this.left === 0) this.on(this.source, this.offset, new Uint8Array());
  }
}

// readPieces reads an answer with a log: of one stream, or of both in frames. The first pieces, which may be empty, say where it begins.
export async function readPieces(r: Response, stream: string, on: Piece): Promise<void> {
  const frames = new Frames(on);
  const source = stream === 'stderr' ? errors : output;
  let offset = Number(r.headers.get('Comb-Log-Offset') ?? '0');
  if (stream !== 'both') on(source, offset, new Uint8Array());
  const reader = r.body?.getReader();
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    if (stream === 'both') {
      frames.take(value);
      continue;
    }
    on(source, offset, value);
    offset += value.length;
  }
}

// goOn says from where a log is to be read: the offset of each stream stands at its number.
export function goOn(place: LogPlace, at: number[]): { offset: number; errors?: number } {
  if (place.stream === 'both') return { offset: at[output] ?? 0, errors: at[errors] ?? 0 };
  return { offset: at[place.stream === 'stderr' ? errors : output] ?? 0 };
}
