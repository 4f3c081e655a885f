import { useEffect, useRef, useState } from 'react';
import { Failure } from '../api/client';
import { type LogPlace, openLog } from '../api/jobs';
import { Lines, longest } from './lines';
import { type LogState, isFinal, nothing, shown } from './useLog';

// What is read first of each task: all of them share what a browser keeps.
const firstLines = 2_000;
const pause = 1000; // between rounds, in ms

// Part reads what one of several tasks has printed since the last round, and hands it on line by line behind the task's name: the
// lines of several tasks never run into each other.
export class Part {
  missing = false; // it has no log yet
  cut = false; // there were more lines before the first
  private offset = -1;
  private rest = '';
  private decoder = new TextDecoder();

  readonly name: string;
  readonly place: LogPlace;

  constructor(name: string, place: LogPlace) {
    this.name = name;
    this.place = place;
  }

  async read(into: Lines, signal: AbortSignal): Promise<boolean> {
    const r = await openLog(this.place, this.offset < 0 ? { tail: firstLines } : { offset: this.offset }, signal, false);
    const start = Number(r.headers.get('Comb-Log-Offset') ?? '0');
    if (this.offset < 0) this.cut = start > 0;
    this.offset = start;
    const reader = r.body?.getReader();
    let any = false;
    while (reader) {
      const { done, value } = await reader.read();
      if (done) break;
      this.offset += value.length;
      any = this.take(this.decoder.decode(value, { stream: true }), into) || any;
    }
    return any;
  }

  // take hands whole lines on, as a terminal would show them: what stands before a lone carriage return is gone. It reports
  // whether there were any.
  take(text: string, into: Lines): boolean {
    const pieces = (this.rest + text).split('\n');
    let rest = last(pieces.pop() ?? '');
    for (const line of pieces) into.take(`${this.name} | ${last(line)}\n`);
    let any = pieces.length > 0;
    for (const room = longest - this.name.length - 3; rest.length > room; rest = rest.slice(room)) {
      into.take(`${this.name} | ${rest.slice(0, room)}\n`); // of one that has no line feeds it would keep everything
      any = true;
    }
    this.rest = rest;
    return any;
  }

  // end hands on the last line, which nothing ends.
  end(into: Lines): void {
    if (this.rest !== '') into.take(`${this.name} | ${last(this.rest)}\n`);
    this.rest = '';
  }
}

// last is what a terminal shows of a line; carriage returns at its end may be followed by a line feed, and stay.
function last(line: string): string {
  let end = line.length;
  while (line[end - 1] === '\r') end--;
  return line.slice(end > 0 ? line.lastIndexOf('\r', end - 1) + 1 : 0);
}

interface Named {
  name: string;
  place: LogPlace;
}

// renewed gives a part for each place: those that there were where the attempt is the same, so that the others' lines stay
// when one task begins anew.
export function renewed(parts: Part[], places: Named[], into: Lines): Part[] {
  return places.map(({ name, place }) => {
    const old = parts.find((p) => p.name === name);
    if (old?.place.attempt === place.attempt) return old;
    old?.end(into);
    return new Part(name, place);
  });
}

// useLogs reads the logs of several tasks, one after the other and round by round: a browser has few connections. over says that
// nothing more comes.
export function useLogs(places: Named[], over: boolean): LogState {
  const [state, setState] = useState(nothing);
  const [turn, setTurn] = useState(0);
  const latest = useRef({ places, over });
  useEffect(() => {
    latest.current = { places, over };
  }, [places, over]);
  const key = places.map((p) => `${p.place.ref} ${p.name} ${p.place.stream}`).join('\n');
  useEffect(() => {
    const control = new AbortController();
    const lines = new Lines();
    let parts: Part[] = [];
    const show = (change: Partial<LogState>) => {
      if (!control.signal.aborted) setState((s) => ({ ...s, ...change, lines, cut: lines.dropped || parts.some((p) => p.cut), version: s.version + 1 }));
    };
    setState({ ...nothing, again: () => setTurn((n) => n + 1) });
    void (async () => {
      for (;;) {
        await shown(control.signal);
        if (control.signal.aborted) return;
        parts = renewed(parts, latest.current.places, lines);
        const ended = latest.current.over;
        const { error, whole } = await round(parts, lines, control.signal, () => show({}));
        const final = ended && whole; // what could not be read now is read in the next round
        if (final) for (const p of parts) p.end(lines);
        show({ error, reading: !final });
        if (final || control.signal.aborted) return;
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    })();
    return () => control.abort();
  }, [key, turn]);
  return state;
}

// round reads each of them once, and tells whether all that there is was read, and of an error where none could be read. A task
// without a log yet is asked again in the next one.
async function round(parts: Part[], lines: Lines, signal: AbortSignal, changed: () => void): Promise<{ error: Error | null; whole: boolean }> {
  let error: Error | null = null;
  let whole = true;
  let any = false;
  for (const p of parts) {
    if (signal.aborted) return { error: null, whole: false };
    try {
      if (await p.read(lines, signal)) changed();
      p.missing = false;
      any = true;
    } catch (e) {
      p.missing = e instanceof Failure && isFinal(e.status);
      if (e instanceof Failure) error = e;
      whole &&= p.missing;
    }
  }
  return { error: any ? null : error, whole };
}
