import { useEffect, useRef, useState } from 'react';
import { Failure } from '../api/client';
import { type LogPlace, openLog } from '../api/jobs';

export const keptLines = 100_000;
const firstLines = 10_000;

export interface LogState {
  lines: string[]; // the same array, changed in place: look at version
  version: number;
  cut: boolean; // there were more lines before the first
  reading: boolean;
  error: Error | null;
}

// Reader follows one log and picks it up where it broke, by its offset in bytes.
class Reader {
  lines: string[] = [];
  cut = false;
  private offset = -1;
  private rest = '';

  // read reads to the end of one answer. It gives false where there is nothing to read on.
  async read(place: LogPlace, signal: AbortSignal, changed: () => void): Promise<void> {
    const r = await openLog(place, this.offset < 0 ? { tail: firstLines } : { offset: this.offset }, signal);
    const start = Number(r.headers.get('Comb-Log-Offset') ?? '0');
    if (this.offset < 0) this.cut = start > 0;
    this.offset = start;
    const reader = r.body?.getReader();
    const decoder = new TextDecoder();
    while (reader) {
      const { done, value } = await reader.read();
      if (done) break;
      this.offset += value.length;
      this.take(decoder.decode(value, { stream: true }));
      changed();
    }
  }

  private take(text: string): void {
    const parts = (this.rest + text).split('\n');
    if (this.rest !== '') this.lines.pop();
    this.rest = parts.pop() ?? '';
    for (const p of parts) this.lines.push(p.endsWith('\r') ? p.slice(0, -1) : p);
    if (this.rest !== '') this.lines.push(this.rest);
    if (this.lines.length > keptLines) {
      this.lines.splice(0, this.lines.length - keptLines);
      this.cut = true;
    }
  }
}

const nothing: LogState = { lines: [], version: 0, cut: false, reading: true, error: null };

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
      if (!control.signal.aborted) setState((s) => ({ ...s, ...change, lines: reader.lines, cut: reader.cut, version: s.version + 1 }));
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
    let final = false;
    try {
      final = over();
      await reader.read(place, signal, changed);
      show({ error: null, reading: !final });
    } catch (e) {
      if (signal.aborted) return;
      const failure = e instanceof Failure ? e : null;
      final = failure !== null && failure.status >= 400 && failure.status < 500 && failure.status !== 429;
      show({ error: final ? failure : null, reading: !final });
    }
    if (final || signal.aborted) return;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}
