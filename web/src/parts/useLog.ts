import { useEffect, useRef, useState } from 'react';
import { Failure } from '../api/client';
import { type LogPlace, openLog } from '../api/jobs';
import { Lines } from './lines';

const firstLines = 10_000;

export interface LogState {
  lines: Lines; // the same object, changed in place: look at version
  version: number;
  cut: boolean; // there were more lines before the first
  reading: boolean; // more may come
  error: Error | null;
}

// Reader follows one log and picks it up where it broke, by its offset in bytes.
class Reader {
  lines = new Lines();
  cut = false;
  private offset = -1;
  private decoder = new TextDecoder();

  // read reads to the end of one answer.
  async read(place: LogPlace, signal: AbortSignal, changed: () => void): Promise<void> {
    const r = await openLog(place, this.offset < 0 ? { tail: firstLines } : { offset: this.offset }, signal);
    const start = Number(r.headers.get('Comb-Log-Offset') ?? '0');
    if (this.offset < 0) this.cut = start > 0;
    this.offset = start;
    const reader = r.body?.getReader();
    while (reader) {
      const { done, value } = await reader.read();
      if (done) break;
      this.offset += value.length;
      this.lines.take(this.decoder.decode(value, { stream: true }));
      changed();
    }
  }
}

export const nothing: LogState = { lines: new Lines(), version: 0, cut: false, reading: true, error: null };

// useLog follows a task's log while the page is open. over says that the task has ended, so that nothing more comes.
export function useLog(place: LogPlace, over: boolean): LogState {
  const [state, setState] = useState(nothing);
  const ended = useRef(over);
  useEffect(() => {
    ended.current = over;
  }, [over]);
  const { ref, role, index, stream, attempt } = place;
  useEffect(() => {
    const control = new AbortController();
    const reader = new Reader();
    let frame = 0;
    const show = (change: Partial<LogState>) => {
      if (!control.signal.aborted) setState((s) => ({ ...s, ...change, lines: reader.lines, cut: reader.cut || reader.lines.gone > 0, version: s.version + 1 }));
    };
    const changed = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        show({});
      });
    };
    setState(nothing);
    void follow(reader, { ref, role, index, stream, attempt }, control.signal, changed, show, () => ended.current);
    return () => {
      control.abort();
      cancelAnimationFrame(frame);
    };
  }, [ref, role, index, stream, attempt]);
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
      show({ error: final ? failure : null, reading: !final });
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
