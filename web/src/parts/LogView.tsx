import { Checkbox, Select, TextInput } from '@mantine/core';
import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, useDeferredValue, useEffect, useMemo, useRef, useState } from 'react';
import { Failure } from '../api/client';
import type { Job, Task } from '../api/wire';
import { log as text } from '../text/job';
import { Empty } from '../ui/Empty';
import { Failed } from '../ui/Failed';
import { runsOf } from './ansi';
import { Finder, type Lines as LogLines } from './lines';
import css from './parts.module.css';
import { type LogState, useLog } from './useLog';
import { useLogs } from './useLogs';

const row = 20;
const all = ''; // the choice of all tasks; no task has this name

function nameOf(t: Task): string {
  return `${t.role}-${t.index}`;
}

const over = ['Succeeded', 'Failed', 'Stopped', 'Ended'];

export function LogView({ job }: { job: Job }) {
  const tasks = job.tasks ?? [];
  const [name, setName] = useState(tasks[0] ? nameOf(tasks[0]) : all);
  const [stream, setStream] = useState('stdout');
  const [follow, setFollow] = useState(true);
  const [find, setFind] = useState('');
  const task = tasks.find((t) => nameOf(t) === name) ?? tasks[0];
  const choices = [...(tasks.length > 1 ? [{ value: all, label: text.all }] : []), ...tasks.map((t) => ({ value: nameOf(t), label: nameOf(t) }))];
  const wanted = useDeferredValue(find);
  if (!task) return <Empty title={text.empty} />;
  const done = over.includes(task.state) || over.includes(job.phase);
  return (
    <div className={css.log}>
      <div className={css.logBar}>
        <Select label={text.task} data={choices} value={name} onChange={(v) => setName(v ?? all)} allowDeselect={false} searchable={tasks.length > 10} />
        <Select label={text.stream} allowDeselect={false} value={stream} onChange={(v) => setStream(v ?? 'stdout')}
          data={[{ value: 'stdout', label: text.stdout }, { value: 'stderr', label: text.stderr }]} />
        <TextInput label={text.search} value={find} onChange={(e) => setFind(e.currentTarget.value)} />
        <Checkbox className={css.logState} label={text.follow} checked={follow} onChange={(e) => setFollow(e.currentTarget.checked)} />
      </div>
      {name === all ? <AllLines key={stream} job={job} stream={stream} follow={follow} find={wanted} onFollow={setFollow} /> :
      <Lines key={`${nameOf(task)} ${stream} ${task.attempt}`} job={String(job.id)} task={task} stream={stream} done={done} follow={follow} find={wanted} onFollow={setFollow} />}
    </div>
  );
}

function AllLines({ job, stream, follow, find, onFollow }: { job: Job; stream: string; follow: boolean; find: string; onFollow: (on: boolean) => void }) {
  const places = (job.tasks ?? []).map((t) => ({ name: nameOf(t), place: { ref: String(job.id), role: t.role, index: t.index, stream, attempt: t.attempt } }));
  const log = useLogs(places, over.includes(job.phase));
  if (log.error instanceof Failure && log.error.status === 404) return <Empty title={text.empty}>{log.error.message}</Empty>;
  if (log.error) return <Failed error={log.error} />;
  return <Scroll log={log} label={text.allLabel} follow={follow} find={find} onFollow={onFollow} />;
}

interface LinesProps {
  job: string;
  task: Task;
  stream: string;
  done: boolean;
  follow: boolean;
  find: string;
  onFollow: (on: boolean) => void;
}

function Lines({ job, task, stream, done, follow, find, onFollow }: LinesProps) {
  const log = useLog({ ref: job, role: task.role, index: task.index, stream, attempt: task.attempt }, done);
  if (log.error instanceof Failure && log.error.status === 404) return <Empty title={text.empty}>{log.error.message}</Empty>;
  if (log.error) return <Failed error={log.error} />;
  return <Scroll log={log} label={text.label(nameOf(task))} follow={follow} find={find} onFollow={onFollow} />;
}

interface ScrollProps {
  log: LogState;
  label: string;
  follow: boolean;
  find: string;
  onFollow: (on: boolean) => void;
}

function Scroll({ log, label, follow, find, onFollow }: ScrollProps) {
  const box = useRef<HTMLDivElement>(null);
  const { version } = log;
  const lines = log.lines.list;
  const found = useFound(log.lines, find, version);
  const total = find ? found.length : lines.length;
  // The rows are made anew with each change: the list below is small, and the array is changed in place.
  const rows = useVirtualizer({ count: total, getScrollElement: () => box.current, estimateSize: () => row, overscan: 20 });
  useEffect(() => {
    const el = box.current;
    if (follow && el) el.scrollTop = el.scrollHeight;
  }, [follow, version, total]);
  return (
    <>
      <div
        ref={box}
        className={css.logBox}
        role="log"
        aria-label={label}
        aria-live="off"
        tabIndex={0}
        onWheel={(e) => {
          if (e.deltaY < 0) onFollow(false);
        }}
        onKeyDown={(e) => {
          if (e.key === 'ArrowUp' || e.key === 'PageUp' || e.key === 'Home') onFollow(false);
          if (e.key === 'End') onFollow(true);
        }}
      >
        <div className={css.logInner} style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((v) => {
            const at = find ? (found[v.index] ?? 0) : v.index;
            return <Line key={v.key} text={lines[at] ?? ''} top={v.start} />;
          })}
        </div>
      </div>
      <p className="meta" role="status">
        {find ? text.found(total) : total === 0 ? text.empty : log.reading ? text.live : text.ended}
        {log.cut && ` · ${text.cut(lines.length)}`}
      </p>
    </>
  );
}

function useFound(lines: LogLines, find: string, version: number): number[] {
  const finder = useMemo(() => ({ of: lines, finder: new Finder(find) }), [lines, find]);
  return useMemo(() => (find && version >= 0 ? finder.finder.find(finder.of) : []), [finder, find, version]);
}

const Line = memo(function Line({ text: line, top }: { text: string; top: number }) {
  return (
    <div className={css.line} style={{ transform: `translateY(${top}px)` }}>
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
