import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { startsQuery } from '../api/jobs';
import type { Expected, Job } from '../api/wire';
import { count } from '../format/quantity';
import { sentence } from '../format/sentence';
import { duration, now, precise } from '../format/time';
import { text } from '../text/jobs';
import { useNow } from '../format/clock';
import { Ago } from '../ui/Ago';
import { Box } from '../ui/Box';
import { State } from '../ui/State';
import { type Column, Table } from '../ui/Table';
import { useHeldUp } from './heldUp';
import { endOf, pointOf, whyOf } from './point';
import { hasEnded, stateOf, waited } from './state';

interface Props {
  jobs: Job[];
  label: string;
  may?: (job: Job) => boolean; // which can be chosen
  chosen?: ReadonlySet<string>; // of jobs that may be stopped; none: nothing can be chosen
  onChoose?: (refs: string[], on: boolean) => void;
  without?: readonly string[]; // columns that would say the same in each row
  sorted?: string;
  ordered?: boolean; // the jobs come in that order
  onSort?: (by: string) => void;
}

let words: Intl.Collator | undefined; // made once, when first asked for: it costs more than a page of rows

function byWord(a: string, b: string): number {
  words ??= new Intl.Collator(undefined, { numeric: true });
  return words.compare(a, b);
}

// Why is what a person wants to know beside the state: why it waits, or how it ended.
function Why({ job }: { job: Job }) {
  if (hasEnded(job)) return <span className="muted" title={sentence(job.message ?? '', job.vc)}>{endOf(job)}</span>;
  if (job.reason) return <span title={sentence(whyOf(job.reason), job.vc)}>{pointOf(job, job.reason)}</span>;
  return <HeldUp job={job} />;
}

function HeldUp({ job }: { job: Job }) {
  const texts = useHeldUp(job).join(' ');
  return texts === '' ? null : <span title={texts}>{texts}</span>;
}

// startIn is when a job that waits starts, as far as that is known; null leaves its cell empty.
function startIn(job: Job, start: Expected | undefined) {
  if (job.phase !== 'Waiting' || !start) return null;
  const { earliest, latest } = start;
  return <Until at={latest ?? earliest} most={!!latest} title={text.expected(precise(earliest), latest ? precise(latest) : '')} />;
}

// endIn is the same of the end of a job that runs.
function endIn(job: Job) {
  if (hasEnded(job) || !job.outlook?.ends) return null;
  return <Until at={job.outlook.ends} most={!!job.outlook.last} title={job.outlook.basis ?? ''} />;
}

function Until({ at, most, title }: { at: number; most: boolean; title: string }) {
  const now = useNow();
  return <span title={title}>{most ? text.atMost(at, now) : text.about(at, now)}</span>;
}

const none: ReadonlyMap<number, Expected> = new Map();

function Waited({ job }: { job: Job }) {
  return <span title={precise(job.submitted)}>{duration(waited(job, useNow()))}</span>;
}

const columns: Column<Job>[] = [
  {
    key: 'name', head: text.name, narrow: 'title', order: (a, b) => byWord(a.name, b.name) || byWord(a.user, b.user),
    cell: (j) => (
      <Link to="/jobs/$job" params={{ job: String(j.id) }} title={j.ref}>
        {j.ref}
      </Link>
    ),
  },
  { key: 'state', head: text.state, order: (a, b) => byWord(stateOf(a), stateOf(b)) || (a.position ?? 0) - (b.position ?? 0), cell: (j) => <State state={stateOf(j)} detail={j.position ? text.position(j.position) : undefined} /> },
  { key: 'why', head: text.why, grow: true, cell: (j) => <Why job={j} /> },
  { key: 'starts', head: text.starts, named: true, cell: () => null },
  { key: 'ends', head: text.ends, named: true, cell: endIn },
  { key: 'vc', head: text.vc, order: (a, b) => byWord(a.vc, b.vc), cell: (j) => <span title={j.vc}>{j.vc}</span> },
  { key: 'user', head: text.user, narrow: 'hidden', from: 1400, order: (a, b) => byWord(a.user, b.user), cell: (j) => j.user },
  { key: 'gpus', head: text.gpus, align: 'right', order: (a, b) => a.gpus - b.gpus, cell: (j) => count(j.gpus) },
  { key: 'waited', head: text.waited, align: 'right', narrow: 'hidden', from: 1500, order: (a, b) => waited(a, now()) - waited(b, now()), cell: (j) => <Waited job={j} /> },
  { key: 'ran', head: text.ran, align: 'right', narrow: 'hidden', from: 1600, order: (a, b) => (a.ran ?? 0) - (b.ran ?? 0), cell: (j) => (j.ran ? duration(j.ran) : <span className="muted">–</span>) },
  { key: 'submitted', head: text.submitted, align: 'right', narrow: 'hidden', order: (a, b) => a.submitted - b.submitted, cell: (j) => <Ago at={j.submitted} /> },
];

// choiceOf is a column of boxes, and above it one for all of the page.
function choiceOf({ jobs, may, chosen, onChoose }: Props): Column<Job>[] {
  if (!chosen || !onChoose) return [];
  const able = (j: Job) => !hasEnded(j) && !!may?.(j);
  const all = jobs.filter(able).map((j) => String(j.id));
  const on = all.filter((id) => chosen.has(id)).length;
  return [{
    key: 'choose', head: text.chosen,
    top: <Box label={text.selectAll} disabled={all.length === 0} on={on > 0 && on === all.length} some={on > 0 && on < all.length} onChange={(to) => onChoose(all, to)} />,
    cell: (j) => (
      <Box label={text.select(j.ref)} disabled={!able(j)} on={chosen.has(String(j.id))} onChange={(to) => onChoose([String(j.id)], to)} />
    ),
  }];
}

// startOf is that column with what is expected of the rows that wait.
function startOf(c: Column<Job>, starts: ReadonlyMap<number, Expected>): Column<Job> {
  return c.key === 'starts' ? { ...c, cell: (j) => startIn(j, starts.get(j.id)) } : c;
}

export function JobTable(props: Props) {
  const { jobs, label, without = [], sorted, ordered = false, onSort } = props;
  const waiting = jobs.filter((j) => j.phase === 'Waiting').map((j) => j.id);
  const starts = useQuery(startsQuery(waiting)).data ?? none;
  const shown = columns.filter((c) => !without.includes(c.key)).map((c) => startOf(c, starts));
  return <Table label={label} columns={[...choiceOf(props), ...shown]} rows={jobs} rowKey={(j) => String(j.id)} ordered={ordered} {...(sorted === undefined ? {} : { sorted })} {...(onSort === undefined ? {} : { onSort })} />;
}
