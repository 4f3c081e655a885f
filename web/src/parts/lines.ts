import { plain } from './ansi';

// What is kept of a log in the browser.
export const keptLines = 100_000;
export const longest = 8192; // characters of a line; what is longer goes on in the next
const keptChars = 32 << 20; // in all lines

// Lines are the last lines of a log that grows, as a terminal would show them: a lone carriage return begins its line anew. Those of
// several streams are kept apart: a line stands where it began, and goes on there while others come.
export class Lines {
  list: string[] = [];
  from: number[] = []; // which stream each is of
  gone = 0; // lines before the first of the list that are not kept; below 0 where earlier ones were put before what was read first
  dropped = false; // some are not kept any more
  private chars = 0;
  private open = new Map<number, number>(); // the lines that have not ended, by stream, counted as gone is
  private back = new Set<number>(); // the streams in which a carriage return ended what came: a line feed may follow it

  take(text: string, source = 0): void {
    const pieces = text.split('\n');
    for (const [i, piece] of pieces.entries()) {
      this.grow(piece, source);
      if (i === pieces.length - 1) break;
      if (!this.open.has(source)) this.write('', source);
      this.open.delete(source);
      this.back.delete(source);
    }
    this.drop();
  }

  // before puts lines that stand before the first one.
  before(earlier: Lines): void {
    this.list = earlier.list.concat(this.list);
    this.from = earlier.from.concat(this.from);
    this.chars += earlier.chars;
    this.gone -= earlier.list.length;
    this.drop();
  }

  // growing are the lines that have not ended.
  growing(): number[] {
    return [...this.open.values()];
  }

  private grow(piece: string, source: number): void {
    let end = piece.length;
    while (piece[end - 1] === '\r') end--;
    if (end > 0) {
      const from = piece.lastIndexOf('\r', end - 1) + 1;
      if (from > 0 || this.back.has(source)) this.write('', source);
      const open = this.open.get(source);
      let line = open === undefined ? '' : (this.list[open - this.gone] ?? '');
      for (let at = from; at < end; ) {
        if (line.length === longest) {
          this.open.delete(source);
          line = '';
        }
        const next = Math.min(end, at + longest - line.length);
        line += piece.slice(at, next);
        at = next;
        this.write(line, source);
      }
    }
    if (piece === '') return;
    if (end < piece.length) this.back.add(source);
    else this.back.delete(source);
  }

  // write puts a line in the place of its stream's open one, or behind the last.
  private write(line: string, source: number): void {
    const at = this.open.get(source) ?? this.gone + this.list.length;
    this.chars += line.length - (this.list[at - this.gone] ?? '').length;
    this.list[at - this.gone] = line;
    this.from[at - this.gone] = source;
    this.open.set(source, at);
  }

  private drop(): void {
    let n = Math.max(0, this.list.length - keptLines);
    let chars = this.chars;
    for (let i = 0; i < n; i++) chars -= this.list[i]?.length ?? 0;
    for (; chars > keptChars; n++) chars -= this.list[n]?.length ?? 0;
    if (n > 0) this.list.splice(0, n);
    if (n > 0) this.from.splice(0, n);
    this.dropped ||= n > 0;
    this.chars = chars;
    this.gone += n;
    for (const [source, at] of this.open) if (at < this.gone) this.open.delete(source);
  }
}

// Finder finds the lines that have a text. It looks at each line once, and again at those that may have grown.
export class Finder {
  private readonly want: string;
  private found: number[] = []; // counted from the first line that was read
  private first = 0; // the first that was looked at
  private next = 0;
  private grew: number[] = []; // had not ended when they were looked at

  constructor(want: string) {
    this.want = want.toLowerCase();
  }

  // find gives the places in the list of lines.
  find(log: Lines): number[] {
    const end = log.gone + log.list.length;
    if (log.gone < this.first) {
      this.found = []; // earlier ones have come
      this.next = log.gone;
    }
    this.first = log.gone;
    const again = this.grew.filter((i) => i >= log.gone && i < this.next);
    this.found = this.found.filter((i) => !again.includes(i));
    const look = (i: number) => {
      if (plain(log.list[i - log.gone] ?? '').toLowerCase().includes(this.want)) this.found.push(i);
    };
    again.forEach(look);
    for (let i = Math.max(this.next, log.gone); i < end; i++) look(i);
    if (again.length > 0) this.found.sort((a, b) => a - b);
    this.next = end;
    this.grew = log.growing();
    return this.found.filter((i) => i >= log.gone).map((i) => i - log.gone);
  }
}

// nextOf gives which of the lines found, in ascending order, comes after another line, or before it; behind the last one comes
// the first, and where no line was looked at, the last one.
export function nextOf(found: number[], line: number, back: boolean): number {
  if (line < 0) return found.length - 1;
  const after = found.findIndex((f) => f > line);
  if (!back) return after < 0 ? 0 : after;
  const before = found.findLastIndex((f) => f < line);
  return before < 0 ? found.length - 1 : before;
}
