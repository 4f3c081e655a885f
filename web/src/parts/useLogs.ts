import { useEffect, useRef, useState } from 'react';
import { Failure } from '../api/client';
import { type LogPlace, openLog } from '../api/jobs';
import { goOn, own, readPieces } from './frames';
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
  private at: number[] = []; // where each stream goes on; empty before the first answer
  private rest = ['', '', ''];
  private decoders = [new TextDecoder(), new TextDecoder(), new TextDecoder()];

  readonly name: string;
  readonly place: LogPlace;

  constructor(name: string, place: LogPlace) {
    this.name = name;
    this.place = place;
  }

  async read(into: Lines, signal: AbortSignal): Promise<boolean> {
    const first = this.at.length === 0;
    const r = await openLog(this.place, first ? { tail: firstLines } : goOn(this.place, this.at), signal, false);
    let any = false;
    await readPieces(r, this.place.stream, (source, offset, bytes) => {
      if (source !== own) {
        if (first && this.at[source] === undefined) this.cut ||= offset > 0;
        this.at[source] = offset + bytes.length;
      }
      any = this.take(this.decoders[source]?.decode(bytes, { stream: true }) ?? '', into, source) || any;
    });
    return any;
  }

  // take hands whole lines on, as a terminal would show them: what stands before a lone carriage return is gone. It reports
  // whether there were any.
  take(text: string, into: Lines, source = 0): boolean {
    const pieces = ((this.rest[source] ?? '') + text).split('\n');
    let rest = last(pieces.pop() ?? '');
    for (const line of pieces) into.take(`${this.name} | ${last(line)}\n`, source);
    let any = pieces.length > 0;
    for (const room = longest - this.name.length - 3; rest.length > room; rest = rest.slice(room)) {
      into.take(`${this.name} | ${rest.slice(0, room)}\n`, source); // of one that has no line feeds it would keep everything
      any = true;
    }
    this.rest[source] = rest;
    return any;
  }

  // end hands on the last lines, which nothing ends.
  end(into: Lines): void {
    for (const [source, rest] of this.rest.entries()) if (rest !== '') into.take(`${this.name} | ${last(rest)}\n`, source);
    this.rest = ['', '', ''];
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
    setState({ ...nothing, both: latest.current.places[0]?.place.stream === 'both', again: () => setTurn((n) => n + 1) });
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
