import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { explainQuery, historyQuery } from '../../api/jobs';
import { meQuery } from '../../api/people';
import type { Job, PastAttempt, Task } from '../../api/wire';
import { count } from '../../format/quantity';
import { told } from '../../format/sentence';
import { mayWith } from '../../parts/rights';
import { hasEnded } from '../../parts/state';
import { useHeldUp } from '../../parts/heldUp';
import { taskEnd } from '../../parts/point';
import { WhyPanel } from '../../parts/WhyPanel';
import { text, why } from '../../text/job';
import { Ago } from '../../ui/Ago';
import { Failed } from '../../ui/Failed';
import { Loading } from '../../ui/Loading';
import { Section } from '../../ui/Page';
import { State } from '../../ui/State';
import { type Column, Table } from '../../ui/Table';
import css from './job.module.css';
import { Outcome } from './Outcome';

const most = 500; // tasks in the list

export function Overview({ job }: { job: Job }) {
  const me = useQuery(meQuery).data;
  const why = useQuery({ ...explainQuery(String(job.id)), enabled: !hasEnded(job) });
  if (job.phase === 'Waiting' && why.isPending) return <Loading rows={6} />; // what stands below would move when it comes
  return (
    <>
      {!hasEnded(job) && <Waiting job={job} />}
      {hasEnded(job) && <Outcome job={job} />}
      <HeldUp job={job} />
      <Coming job={job} />
      {(job.notices ?? []).length > 0 && (
        <Section title={text.notices}>
          <ul className={css.plain}>
            {(job.notices ?? []).map((n) => (
              <li key={n}>{n}</li>
            ))}
          </ul>
        </Section>
      )}
      <Section title={text.tasks} aside={count((job.tasks ?? []).length)}>
        <Table label={text.tasks} columns={tasks(job)} rows={(job.tasks ?? []).slice(0, most)} rowKey={(t) => `${t.role}-${t.index}`} />
        {(job.tasks ?? []).length > most && <p className="meta">{text.moreTasks(most)}</p>}
      </Section>
      {mayWith(me, "read the job's file, logs and events", job) && <Attempts job={job} />}
    </>
  );
}

// HeldUp is what the server says of itself, such as a Kubernetes whose API server is away, of a job whose tasks start and do not run yet.
function HeldUp({ job }: { job: Job }) {
  const texts = useHeldUp(job);
  if (texts.length === 0) return null;
  return (
    <Section title={text.holdsUp}>
      <ul className={css.plain}>
        {texts.map((t) => (
          <li key={t}>{t}</li>
        ))}
      </ul>
    </Section>
  );
}

// Coming is what will happen to a job that runs, the first thing first.
function Coming({ job }: { job: Job }) {
  const all = job.coming ?? [];
  if (all.length === 0) return null;
  return (
    <Section title={text.coming}>
      <ul className={css.plain}>
        {all.map((c) => (
          <li key={`${c.kind} ${c.message}`}>
            {c.at ? <><Ago at={c.at} />{': '}</> : null}
            {told(c.message)}
          </li>
        ))}
      </ul>
    </Section>
  );
}

// Waiting shows why what waits of a job waits. A job whose gangs all run has nothing here.
function Waiting({ job }: { job: Job }) {
  const e = useQuery(explainQuery(String(job.id)));
  const reader = useQuery(meQuery).data?.name ?? '';
  if (e.error) return <Failed error={e.error} onRetry={() => void e.refetch()} />;
  if (!e.data || (e.data.gangs ?? []).length === 0) return null;
  return <WhyPanel explanation={e.data} title={job.phase === 'Waiting' ? why.title : why.ran} reader={reader} from={String(job.id)} />;
}

function progressOf(t: Task): string {
  if (!t.progress) return '–';
  return [text.steps(t.progress.step, t.progress.total), t.progress.loss && text.loss(t.progress.loss)].filter(Boolean).join(', ');
}

// Devices is how many GPUs a task has; which they are on its node is told on hover.
function Devices({ task }: { task: Task }) {
  const list = task.devices ?? [];
  if (list.length === 0) return '–';
  return <span title={text.devicesOn(task.node ?? '', list)}>{count(list.length)}</span>;
}

function tasks(job: Job): Column<Task>[] {
  return [
    { key: 'task', head: text.task, narrow: 'title', cell: (t) => <Link to="/jobs/$job" params={{ job: String(job.id) }} search={{ tab: 'log', task: `${t.role}-${t.index}` }}>{`${t.role}-${t.index}`}</Link> },
    { key: 'state', head: text.state, cell: (t) => <State state={t.state} /> },
    { key: 'attempt', head: text.attempt, align: 'right', narrow: 'hidden', cell: (t) => (t.attempt ? t.attempt : '–') },
    { key: 'node', head: text.node, named: true, cell: (t) => t.node ?? '–' },
    { key: 'devices', head: text.devices, align: 'right', cell: (t) => <Devices task={t} /> },
    { key: 'ports', head: text.ports, narrow: 'hidden', cell: (t) => (t.ports ?? []).join(', ') || '–' },
    { key: 'progress', head: text.progress, named: true, cell: progressOf },
    { key: 'exit', head: text.exit, named: true, grow: true, cell: taskEnd },
  ];
}

// Attempts are all runs of the job's gangs: where and when each ran, why it ended, and what was lost with it.
function Attempts({ job }: { job: Job }) {
  const seen = [job.phase, ...(job.attempts ?? []).map((a) => `${a.id.gang}.${a.id.n} ${a.state}`)].join();
  const h = useQuery(historyQuery(String(job.id), seen));
  const gangs = new Set((h.data?.attempts ?? []).map((a) => a.id.gang)).size;
  const attempts = [...(h.data?.attempts ?? [])].reverse();
  if (h.error) return <Failed error={h.error} onRetry={() => void h.refetch()} />;
  if (attempts.length === 0) return null;
  return (
    <Section title={text.attempts} aside={count(attempts.length)}>
      <Table label={text.attempts} columns={attemptColumns(gangs > 1)} rows={attempts} rowKey={(a) => `${a.id.gang} ${a.id.n}`} />
      {h.data?.left ? <p className="meta">{text.older(h.data.left)}</p> : null}
    </Section>
  );
}

function nodesOf(a: PastAttempt): string {
  return [...(a.nodes ?? []), ...(a.more_nodes ? [text.moreNodes(a.more_nodes)] : [])].join(', ') || '–';
}

function endOf(a: PastAttempt): string {
  const failed = (a.tasks ?? []).map((t) => `${t.task} ${[t.exit_class?.class, t.exit.signal ? text.signal(t.exit.signal) : text.exitCode(t.exit.code), t.exit.message].filter(Boolean).join(', ')}`);
  return [a.cause, [a.why, a.message].filter(Boolean).join('; ') || failed[0]].filter(Boolean).join(': ');
}

// attemptColumns tell an attempt by its number, and where a job has several gangs, by that of its gang before it.
const attemptColumns = (gangs: boolean): Column<PastAttempt>[] => [
  { key: 'attempt', head: text.attempt, narrow: 'title', cell: (a) => (gangs ? `${a.id.gang}.${a.id.n}` : a.id.n) },
  { key: 'nodes', head: text.nodes, named: true, cell: nodesOf },
  { key: 'gpus', head: text.gpus, align: 'right', narrow: 'hidden', cell: (a) => count(a.gpus) },
  { key: 'placed', head: text.placed, narrow: 'hidden', cell: (a) => <Ago at={a.placed} /> },
  { key: 'started', head: text.started, named: true, cell: (a) => <Ago at={a.started} /> },
  { key: 'ended', head: text.ended, named: true, cell: (a) => <Ago at={a.ended} /> },
  { key: 'lost', head: text.lost, align: 'right', named: true, cell: (a) => (a.lost ? text.gpuTime(a.lost) : '–') },
  { key: 'cause', head: text.cause, grow: true, cell: endOf },
];
