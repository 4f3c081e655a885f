import { plain } from './ansi';

// What is kept of a log in the browser.
export const keptLines = 100_000;
export const longest = 8192; // characters of a line; what is longer goes on in the next
const keptChars = 32 << 20; // in all lines

// Lines are the last lines of a log that grows, as a terminal would show them: a lone carriage return begins its line anew.
export class Lines {
  list: string[] = [];
  gone = 0; // lines before the first of the list that are not kept; below 0 where earlier ones were put before what was read first
  dropped = false; // some are not kept any more
  private chars = 0;
  private open = false; // the last line has not ended
  private back = false; // a carriage return ended what came: a line feed may follow it

  take(text: string): void {
    const pieces = text.split('\n');
    for (const [i, piece] of pieces.entries()) {
      this.grow(piece);
      if (i === pieces.length - 1) break;
      if (!this.open) this.list.push('');
      this.open = this.back = false;
    }
    this.drop();
  }

  // before puts text that stands before the first line, and ends one itself.
  before(text: string): void {
    const earlier = new Lines();
    earlier.take(text);
    this.list = earlier.list.concat(this.list);
    this.chars += earlier.chars;
    this.gone -= earlier.list.length;
    this.drop();
  }

  private grow(piece: string): void {
    let end = piece.length;
    while (piece[end - 1] === '\r') end--;
    if (end > 0) {
      const from = piece.lastIndexOf('\r', end - 1) + 1;
      if (from > 0 || this.back) this.write('');
      let line = this.open ? (this.list.at(-1) ?? '') : '';
      for (let at = from; at < end; ) {
        if (line.length === longest) {
          this.open = false;
          line = '';
        }
        const next = Math.min(end, at + longest - line.length);
        line += piece.slice(at, next);
        at = next;
        this.write(line);
      }
    }
    if (piece !== '') this.back = end < piece.length;
  }

  // write puts a line in the place of the open one, or behind the last.
  private write(line: string): void {
    const old = this.open ? (this.list.pop() ?? '') : '';
    this.list.push(line);
    this.chars += line.length - old.length;
    this.open = true;
  }

  private drop(): void {
    let n = Math.max(0, this.list.length - keptLines);
    let chars = this.chars;
    for (let i = 0; i < n; i++) chars -= this.list[i]?.length ?? 0;
    for (; chars > keptChars; n++) chars -= this.list[n]?.length ?? 0;
    if (n > 0) this.list.splice(0, n);
    this.dropped ||= n > 0;
    this.chars = chars;
    this.gone += n;
  }
}

// Finder finds the lines that have a text. It looks at each line once, and at the last again, which may have grown.
export class Finder {
  private readonly want: string;
  private found: number[] = []; // counted from the first line that was read
  private first = 0; // the first that was looked at
  private next = 0;

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
    while ((this.found.at(-1) ?? -Infinity) >= this.next) this.found.pop();
    for (let i = Math.max(this.next, log.gone); i < end; i++) {
      if (plain(log.list[i - log.gone] ?? '').toLowerCase().includes(this.want)) this.found.push(i);
    }
    this.next = Math.max(log.gone, end - 1);
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
