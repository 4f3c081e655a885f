import { Button, Checkbox, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, type ReactNode, useDeferredValue, useLayoutEffect, useMemo, useRef, useState } from 'react';
import { log as text } from '../text/job';
import { Failed } from '../ui/Failed';
import { runsOf } from './ansi';
import { firstErrorOf } from './firstError';
import { errors } from './frames';
import { Finder, type Lines as LogLines, nextOf } from './lines';
import css from './parts.module.css';
import type { LogState } from './useLog';

const row = 20;

interface Props {
  log: LogState;
  label: string;
  rest: string; // where lines are that were not read
  failed: boolean; // it has a first error
  toError: boolean; // and begins there
  follow: boolean;
  onFollow: (on: boolean) => void;
}

// LogScroll shows the lines of a log, those in view alone, and finds a text in them.
export function LogScroll({ log, label, rest, failed, toError, follow, onFollow }: Props) {
  const [find, setFind] = useState('');
  const [only, setOnly] = useState(false); // the lines that were found, alone
  const [at, setAt] = useState(-1); // the line that was jumped to, counted from the log's first
  const wanted = useDeferredValue(find);
  const { gone } = log.lines;
  const found = useFound(log.lines, wanted, log.version);
  const shown = wanted && only ? found : null;
  const total = shown ? shown.length : log.lines.list.length;
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({ count: total, getScrollElement: () => box.current, estimateSize: () => row, overscan: 20 });
  const scroll = useScroll(box, { follow, onFollow, version: log.version, total, gone, whole: !shown });
  const show = (line: number, place: number) => {
    onFollow(false);
    setAt(line + gone);
    rows.scrollToIndex(place, { align: 'center' });
  };
  const jump = (back: boolean) => {
    const next = nextOf(found, at - gone, back);
    const to = found[next];
    if (to !== undefined) show(to, shown ? next : to);
  };
  const { line: error, of: searched } = useFirstError(log, failed);
  const goToError = () => {
    setOnly(false);
    show(error, error);
  };
  const opened = useRef(!toError);
  useLayoutEffect(() => {
    if (error < 0 || opened.current) return;
    opened.current = true;
    goToError();
  });
  const hits = useMemo(() => new Set(found), [found]);
  const lineAt = (index: number) => (shown ? (shown[index] ?? 0) : index);
  const isError = (line: number) => log.both && log.lines.from[line] === errors;
  return (
    <>
      <Find find={find} found={found} of={log.cut ? log.lines.list.length : 0} at={at - gone} only={only} onFind={(t) => { setFind(t); setAt(-1); }} onOnly={setOnly} onJump={jump}>
        {error >= 0 && <Button variant="default" onClick={goToError}>{text.firstError(searched)}</Button>}
      </Find>
      <div ref={box} className={css.logBox} role="log" aria-label={label} aria-live="off" tabIndex={0} {...scroll}>
        <div className={css.logInner} style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((v, nth, all) => {
            const i = lineAt(v.index);
            const before = all[nth - 1];
            return <Line key={v.key} text={log.lines.list[i] ?? ''} top={v.start} error={isError(i)} begins={isError(i) && !(before && isError(lineAt(before.index)))} mark={i === at - gone ? 'at' : !shown && hits.has(i) ? 'found' : ''} />;
          })}
        </div>
      </div>
      <div className={css.logFoot}>
        <p className="meta" role="status">
          {statusOf(log)}
          {log.cut && ` · ${text.cut(log.lines.list.length)}. ${rest}`}
        </p>
        {log.earlier && <EarlierLines read={log.earlier} onRead={() => onFollow(false)} />}
      </div>
    </>
  );
}

function EarlierLines({ read, onRead }: { read: () => Promise<void>; onRead: () => void }) {
  const reading = useMutation({ mutationFn: read, onMutate: onRead });
  return (
    <>
      <Button size="xs" variant="default" disabled={reading.isPending} onClick={() => reading.mutate()}>
        {reading.isPending ? text.loading : text.earlier}
      </Button>
      {reading.error && <Failed error={reading.error} />}
    </>
  );
}

function statusOf(log: LogState): string {
  if (log.version === 0) return text.loading;
  if (log.lines.list.length === 0) return log.reading ? text.empty : text.none;
  return log.reading ? text.live : text.ended;
}

interface Scrolling {
  follow: boolean;
  onFollow: (on: boolean) => void;
  version: number;
  total: number;
  gone: number; // lines that were dropped before the first; below 0 where earlier ones came
  whole: boolean; // all lines are shown, not those alone that were found
}

// useScroll keeps the end in view while it is followed, and else the lines that are read, also when earlier ones are dropped or come.
// Whoever scrolls up, by wheel, finger, key or bar, follows no more.
function useScroll(box: React.RefObject<HTMLDivElement | null>, { follow, onFollow, version, total, gone, whole }: Scrolling) {
  const before = useRef({ top: 0, height: 0, gone, whole });
  useLayoutEffect(() => {
    const el = box.current;
    if (!el) return;
    if (follow && el.scrollHeight >= before.current.height && isUp(el, before.current)) onFollow(false); // its event has not come yet
    else if (follow) el.scrollTop = el.scrollHeight;
    else if (whole && before.current.whole) el.scrollTop -= (gone - before.current.gone) * row;
    before.current = { top: el.scrollTop, height: el.scrollHeight, gone, whole };
  }, [box, follow, onFollow, version, total, gone, whole]);
  return {
    onScroll: (e: React.UIEvent<HTMLDivElement>) => {
      const el = e.currentTarget;
      if (follow && isUp(el, { top: before.current.top, height: el.scrollHeight })) onFollow(false);
      before.current.top = el.scrollTop;
    },
    onKeyDown: (e: React.KeyboardEvent<HTMLDivElement>) => {
      if (e.key === 'ArrowUp' || e.key === 'PageUp' || e.key === 'Home') onFollow(false);
      if (e.key !== 'End') return;
      before.current.top = e.currentTarget.scrollTop; // what was scrolled up before, and its event has not come yet, counts no more
      onFollow(true);
    },
  };
}

// isUp reports whether a box was scrolled up from where it was, and away from its end.
function isUp(el: HTMLElement, was: { top: number; height: number }): boolean {
  return el.scrollTop < was.top && el.scrollTop + el.clientHeight < was.height - row;
}

interface FindProps {
  find: string;
  found: number[];
  of: number; // how many lines were searched, where they are not all; else 0
  at: number;
  only: boolean;
  onFind: (text: string) => void;
  onOnly: (on: boolean) => void;
  onJump: (back: boolean) => void;
  children: ReactNode;
}

// Find counts the lines that have a text and goes from one to the next: Enter is the next one, Shift and Enter the one before.
function Find({ find, found, of, at, only, onFind, onOnly, onJump, children }: FindProps) {
  const none = found.length === 0;
  return (
    <div className={css.logFind} role="search" aria-label={text.finding}>
      <TextInput label={text.search} value={find} onChange={(e) => onFind(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === 'Enter') onJump(e.shiftKey);
        }} />
      <Button variant="default" disabled={none} onClick={() => onJump(true)}>{text.previous}</Button>
      <Button variant="default" disabled={none} onClick={() => onJump(false)}>{text.next}</Button>
      {children}
      <Checkbox label={text.only} checked={only} onChange={(e) => onOnly(e.currentTarget.checked)} />
      <span className="meta" role="status">{find ? text.found(found.length, found.indexOf(at) + 1, of) : ''}</span>
    </div>
  );
}

function useFound(lines: LogLines, find: string, version: number): number[] {
  const finder = useMemo(() => ({ of: lines, finder: new Finder(find) }), [lines, find]);
  return useMemo(() => (find && version >= 0 ? finder.finder.find(finder.of) : []), [finder, find, version]);
}

// useFirstError is the line at which the reader of a failed task's log begins, -1 where there is none, and of how many lines it is the
// first, 0 for all. It is looked for when nothing more comes, and stays the same one while earlier lines come.
function useFirstError(log: LogState, failed: boolean): { line: number; of: number } {
  const final = failed && !log.reading && log.version > 0;
  const first = useMemo(() => {
    const i = final ? firstErrorOf(log.lines) : -1;
    return i < 0 ? null : { at: i + log.lines.gone, of: log.cut ? log.lines.list.length : 0 };
  }, [log.lines, final]);
  return first === null ? { line: -1, of: 0 } : { line: first.at - log.lines.gone, of: first.of };
}

interface LineProps {
  text: string;
  top: number;
  error: boolean; // it is of standard error, beside lines that are not
  begins: boolean; // it is the first of such lines
  mark: string;
}

const Line = memo(function Line({ text: line, top, error, begins, mark }: LineProps) {
  return (
    <div className={css.line} data-mark={mark || undefined} data-error={error || undefined} title={error ? text.isError : undefined} style={{ transform: `translateY(${top}px)` }}>
      {begins && <span className={`hidden ${css.unselected ?? ''}`}>{text.isError}: </span>}
      {runsOf(line).map((r, i) =>
        r.colour || r.bold ? (
          <span key={i} style={{ color: r.colour || undefined, fontWeight: r.bold ? 600 : undefined }}>
            {r.text}
          </span>
        ) : (
          r.text
        ),
      )}
    </div>
  );
});
