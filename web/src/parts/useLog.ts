import { useEffect, useRef, useState } from 'react';
import { Failure } from '../api/client';
import { type LogPlace, openLog } from '../api/jobs';
import { earlierOf } from './earlier';
import { goOn, own, readPieces } from './frames';
import { Lines } from './lines';

const firstLines = 10_000;
const earlierBytes = 1 << 20; // that are read at once of what stands before them

export interface LogState {
  lines: Lines; // the same object, changed in place: look at version
  version: number;
  both: boolean; // its lines are of both streams
  cut: boolean; // there were more lines before the first
  earlier: (() => Promise<void>) | null; // reads some of these
  reading: boolean; // more may come
  error: Error | null;
  again: () => void; // tries anew
}

// Reader follows one log and picks it up where it broke, by its offset in bytes.
export class Reader {
  lines = new Lines();
  private start = [0, 0]; // the offset of what was read first, of each stream; of one that is not read nothing stands before it
  private long = false; // the line before that is longer than what is read at once
  private at: number[] = []; // where each stream goes on; empty before the first answer
  private decoders = [new TextDecoder(), new TextDecoder(), new TextDecoder()];
  private readonly open: typeof openLog;

  constructor(open = openLog) {
    this.open = open;
  }

  // read reads to the end of one answer.
  async read(place: LogPlace, signal: AbortSignal, changed: () => void): Promise<void> {
    const r = await this.open(place, this.at.length === 0 ? { tail: firstLines } : goOn(place, this.at), signal);
    changed(); // also where nothing was printed yet
    await readPieces(r, place.stream, (source, offset, bytes) => {
      if (source !== own) {
        if (this.at[source] === undefined) this.start[source] = offset;
        this.at[source] = offset + bytes.length;
      }
      this.lines.take(this.decoders[source]?.decode(bytes, { stream: true }) ?? '', source);
      changed();
    });
  }

  get cut(): boolean {
    return this.start.some((n) => n > 0) || this.lines.dropped;
  }

  // before reads what stands before the first line. Once lines were dropped there is no room for it.
  get before(): ((place: LogPlace, signal: AbortSignal) => Promise<void>) | null {
    if (this.start.every((n) => n === 0) || this.long || this.lines.dropped) return null;
    return async (place, signal) => {
      const { lines, start } = await earlierOf(place, this.start, earlierBytes, signal, this.open);
      this.long = start.every((n, i) => n >= (this.start[i] ?? 0));
      if (this.long || this.lines.dropped) return;
      this.start = start;
      this.lines.before(lines);
    };
  }
}

export const nothing: LogState = { lines: new Lines(), version: 0, both: false, cut: false, earlier: null, reading: true, error: null, again: () => {} };

// useLog follows a task's log while the page is open. over says that the task has ended, so that nothing more comes.
export function useLog(place: LogPlace, over: boolean): LogState {
  const [state, setState] = useState(nothing);
  const [turn, setTurn] = useState(0);
  const ended = useRef(over);
  useEffect(() => {
    ended.current = over;
  }, [over]);
  const { ref, role, index, stream, attempt } = place;
  useEffect(() => {
    const control = new AbortController();
    const reader = new Reader();
    const at = { ref, role, index, stream, attempt };
    let frame = 0;
    const show = (change: Partial<LogState>) => {
      if (!control.signal.aborted) setState((s) => ({ ...s, ...change, lines: reader.lines, cut: reader.cut, earlier: reader.before && earlier, version: s.version + 1 }));
    };
    const earlier = async () => {
      await reader.before?.(at, control.signal);
      show({});
    };
    const changed = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        show({ error: null });
      });
    };
    setState({ ...nothing, both: stream === 'both', again: () => setTurn((n) => n + 1) });
    void follow(reader, at, control.signal, changed, show, () => ended.current);
    return () => {
      control.abort();
      cancelAnimationFrame(frame);
    };
  }, [ref, role, index, stream, attempt, turn]);
  return state;
}

async function follow(reader: Reader, place: LogPlace, signal: AbortSignal, changed: () => void, show: (c: Partial<LogState>) => void, over: () => boolean) {
  for (;;) {
    await shown(signal);
    if (signal.aborted) return;
    const hidden = untilHidden();
    let final = false;
    try {
      final = over();
      await reader.read(place, AbortSignal.any([signal, hidden.signal]), changed);
      show({ error: null, reading: !final });
    } catch (e) {
      if (signal.aborted) return;
      if (hidden.signal.aborted) continue;
      const failure = e instanceof Failure ? e : null;
      final = failure !== null && isFinal(failure.status);
      show({ error: failure, reading: !final });
    } finally {
      hidden.forget();
    }
    if (final) return;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

// isFinal says that asking again would give the same. A call whose session is over waits for the next by itself.
export function isFinal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 429;
}

// A browser has six connections to a server without TLS, for all its tabs: one that nobody sees gives its connection up.

// shown waits until the page is seen.
export function shown(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener('visibilitychange', look);
      signal.removeEventListener('abort', look);
      resolve();
    };
    document.addEventListener('visibilitychange', look);
    signal.addEventListener('abort', look);
    look();
  });
}

// untilHidden gives a signal that ends a call when the page is seen no more.
function untilHidden(): { signal: AbortSignal; forget: () => void } {
  const control = new AbortController();
  const look = () => {
    if (document.hidden) control.abort();
  };
  document.addEventListener('visibilitychange', look);
  return { signal: control.signal, forget: () => document.removeEventListener('visibilitychange', look) };
}
