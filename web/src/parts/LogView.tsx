import { Button, Checkbox, SegmentedControl, Select } from '@mantine/core';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import { Failure } from '../api/client';
import { logFile, logsFile } from '../api/jobs';
import type { Job, Task } from '../api/wire';
import { log as text } from '../text/job';
import { Empty } from '../ui/Empty';
import { Failed } from '../ui/Failed';
import { LogScroll } from './LogScroll';
import { firstFailed } from './state';
import css from './parts.module.css';
import { type LogState, useLog } from './useLog';
import { useLogs } from './useLogs';

const all = 'all'; // the choice of all tasks; a task's name has a number behind it
const attemptsShown = 100; // that can be chosen

function nameOf(t: Task): string {
  return `${t.role}-${t.index}`;
}

// beginOf is the task whose log a reader who names none begins with.
function beginOf(job: Job): string {
  const task = firstFailed(job) ?? job.tasks?.[0];
  return task ? nameOf(task) : '';
}

const over = ['Succeeded', 'Failed', 'Stopped', 'Ended'];

// Which log is shown stands in the address.
interface LogAddress {
  task?: string;
  output?: string;
  attempt?: string;
}

export function LogView({ job }: { job: Job }) {
  const tasks = job.tasks ?? [];
  const address: LogAddress = useSearch({ strict: false });
  const navigate = useNavigate();
  const [follow, setFollow] = useState(true);
  const [begun] = useState(() => beginOf(job)); // not changed under its reader by a task that fails
  const task = tasks.find((t) => nameOf(t) === address.task) ?? tasks.find((t) => nameOf(t) === begun) ?? tasks[0];
  if (!task) return <Empty title={text.empty} />;
  const together = address.task === all && tasks.length > 1;
  const stream = text.streams.find((s) => s.value === address.output)?.value ?? 'both';
  const attempt = attemptOf(task, address.attempt);
  const other = otherOf(address, tasks, together ? null : task);
  const go = (change: LogAddress) => void navigate({ to: '/jobs/$job', params: { job: String(job.id) }, search: { tab: 'log', ...address, ...change }, replace: true, resetScroll: false });
  const choices = [...(tasks.length > 1 ? [{ value: all, label: text.all }] : []), ...tasks.map((t) => ({ value: nameOf(t), label: nameOf(t) }))];
  return (
    <div className={css.log}>
      <div className={css.logBar}>
        <Select label={text.task} data={choices} value={together ? all : nameOf(task)} onChange={(v) => go({ task: v ?? '', attempt: '' })} allowDeselect={false} searchable={tasks.length > 10} />
        <SegmentedControl aria-label={text.stream} value={stream} onChange={(v) => go({ output: v === 'both' ? '' : v })} data={text.streams} />
        {!together && task.attempt > 1 && (
          <Select label={text.attempt} allowDeselect={false} value={String(attempt)} onChange={(v) => go({ attempt: v === String(task.attempt) ? '' : (v ?? '') })}
            data={Array.from({ length: Math.min(task.attempt, attemptsShown) }, (_, i) => ({ value: String(task.attempt - i), label: i === 0 ? text.latest(task.attempt) : String(task.attempt - i) }))} />
        )}
        {!together && attempt > 0 && (
          <Button component="a" variant="default" href={logFile({ ref: String(job.id), role: task.role, index: task.index, stream, attempt })} download={`${job.name}-${nameOf(task)}${stream === 'both' ? '' : `-${stream}`}.log`}>
            {text.download}
          </Button>
        )}
        {tasks.length > 1 && tasks.some((t) => t.attempt > 0) && (
          <Button component="a" variant="default" href={logsFile(String(job.id))} download title={text.downloadAllWhy}>
            {text.downloadAll}
          </Button>
        )}
        <Checkbox className={css.logState} label={text.follow} checked={follow} onChange={(e) => setFollow(e.currentTarget.checked)} />
      </div>
      {other && <p role="status" className="muted">{other}</p>}
      {together ? <AllLines key={stream} job={job} stream={stream} follow={follow} onFollow={setFollow} /> :
      <Lines key={`${nameOf(task)} ${stream} ${attempt}`} job={job} task={task} stream={stream} attempt={attempt} follow={follow} onFollow={setFollow} />}
    </div>
  );
}

// attemptOf is the attempt that an address wants, the latest if that one has not been.
function attemptOf(task: Task, wanted: string | undefined): number {
  const n = Number(wanted);
  return Number.isInteger(n) && n > 0 && n < task.attempt ? n : task.attempt;
}

// otherOf says that what an address asks for is not there, and what is shown instead; "" where it is.
function otherOf(address: LogAddress, tasks: Task[], shown: Task | null): string {
  if (!shown) return '';
  const name = nameOf(shown);
  if (address.task && !tasks.some((t) => nameOf(t) === address.task)) return text.noTask(address.task, name);
  if (address.attempt && String(attemptOf(shown, address.attempt)) !== address.attempt) return text.noAttempt(address.attempt, name);
  return '';
}

interface Following {
  follow: boolean;
  onFollow: (on: boolean) => void;
}

function AllLines({ job, stream, ...rest }: { job: Job; stream: string } & Following) {
  const places = (job.tasks ?? []).map((t) => ({ name: nameOf(t), place: { ref: String(job.id), role: t.role, index: t.index, stream, attempt: t.attempt } }));
  const log = useLogs(places, over.includes(job.phase));
  return <Shown log={log} label={text.allLabel} rest={text.restOfAll} failed={job.phase === 'Failed'} {...rest} />;
}

interface LinesProps extends Following {
  job: Job;
  task: Task;
  stream: string;
  attempt: number;
}

function Lines({ job, task, stream, attempt, ...rest }: LinesProps) {
  const done = attempt < task.attempt || over.includes(task.state) || over.includes(job.phase);
  const log = useLog({ ref: String(job.id), role: task.role, index: task.index, stream, attempt }, done);
  const failed = attempt === task.attempt && task.state === 'Failed';
  return <Shown log={log} label={text.label(nameOf(task))} rest={text.rest} failed={failed} {...rest} />;
}

function Shown({ log, ...more }: { log: LogState; label: string; rest: string; failed: boolean } & Following) {
  const [toError] = useState(more.failed); // a log whose task fails while it is read stays where its reader is
  if (log.error instanceof Failure && log.error.status === 404) return <Empty title={log.reading ? text.empty : text.none}>{log.error.message}</Empty>;
  if (log.error && (!log.reading || log.lines.list.length === 0)) return <Failed error={log.error} onRetry={log.again} />;
  return <LogScroll log={log} toError={toError} {...more} />;
}
