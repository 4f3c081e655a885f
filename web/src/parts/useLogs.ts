import { useEffect, useRef, useState } from 'react';
import { Failure } from '../api/client';
import { type LogPlace, openLog } from '../api/jobs';
import { Lines } from './lines';
import { type LogState, isFinal, shown } from './useLog';

// What is read first of each task: all of them share what a browser keeps.
const firstLines = 2_000;
const pause = 1000; // between rounds, in ms

// Part reads what one of several tasks has printed since the last round, and hands it on line by line behind the task's name: the
// lines of several tasks never run into each other.
export class Part {
  missing = false;
  private offset = -1;
  private rest = '';
  private decoder = new TextDecoder();

  readonly name: string;
  private readonly place: LogPlace;

  constructor(name: string, place: LogPlace) {
    this.name = name;
    this.place = place;
  }

  async read(into: Lines, signal: AbortSignal): Promise<boolean> {
    const r = await openLog(this.place, this.offset < 0 ? { tail: firstLines } : { offset: this.offset }, signal, false);
    this.offset = Number(r.headers.get('Comb-Log-Offset') ?? '0');
    const bytes = new Uint8Array(await r.arrayBuffer());
    this.offset += bytes.length;
    return this.take(this.decoder.decode(bytes, { stream: true }), into);
  }

  // take hands whole lines on. It reports whether there were any.
  take(text: string, into: Lines): boolean {
    const pieces = (this.rest + text).split('\n');
    this.rest = pieces.pop() ?? '';
    for (const line of pieces) into.take(`${this.name} | ${line}\n`);
    return pieces.length > 0;
  }

  // end hands on the last line, which nothing ends.
  end(into: Lines): void {
    if (this.rest !== '') into.take(`${this.name} | ${this.rest}\n`);
    this.rest = '';
  }
}

const nothing: LogState = { lines: new Lines(), version: 0, cut: false, reading: true, error: null };

// useLogs reads the logs of several tasks, one after the other and round by round: a browser has few connections. over says that
// nothing more comes.
export function useLogs(places: { name: string; place: LogPlace }[], over: boolean): LogState {
  const [state, setState] = useState(nothing);
  const latest = useRef({ places, over });
  useEffect(() => {
    latest.current = { places, over };
  }, [places, over]);
  const key = places.map((p) => `${p.place.ref} ${p.name} ${p.place.stream} ${p.place.attempt}`).join('\n');
  useEffect(() => {
    const control = new AbortController();
    const lines = new Lines();
    const parts = latest.current.places.map((p) => new Part(p.name, p.place));
    const show = (change: Partial<LogState>) => {
      if (!control.signal.aborted) setState((s) => ({ ...s, ...change, lines, cut: lines.gone > 0, version: s.version + 1 }));
    };
    setState(nothing);
    void (async () => {
      for (;;) {
        await shown(control.signal);
        if (control.signal.aborted) return;
        const final = latest.current.over;
        const error = await round(parts, lines, control.signal, () => show({}));
        if (final) for (const p of parts) p.end(lines);
        show({ error: parts.every((p) => p.missing) ? error : null, reading: !final });
        if (final || control.signal.aborted) return;
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    })();
    return () => control.abort();
  }, [key]);
  return state;
}

// round reads each of them once. A task without a log yet is asked again in the next one.
async function round(parts: Part[], lines: Lines, signal: AbortSignal, changed: () => void): Promise<Error | null> {
  let last: Error | null = null;
  for (const p of parts) {
    if (signal.aborted) return null;
    try {
      if (await p.read(lines, signal)) changed();
      p.missing = false;
    } catch (e) {
      p.missing = e instanceof Failure && isFinal(e.status);
      if (p.missing && e instanceof Error) last = e;
    }
  }
  return last;
}
