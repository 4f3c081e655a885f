import { Link } from '@tanstack/react-router';
import { Failure } from '../../api/client';
import type { ConfigPlanned } from '../../api/wire';
import { sentence } from '../../format/sentence';
import { refOf } from '../../parts/point';
import { text } from '../../text/config';
import { Failed, Mistakes } from '../../ui/Failed';
import { type Column, Table } from '../../ui/Table';
import css from './config.module.css';

// Plan shows what a file would do, as the server works it out: in words, then each job that is hit.
export function Plan({ plan, error, reader }: { plan: ConfigPlanned | undefined; error: Error | null; reader: string }) {
  const mistakes = error instanceof Failure ? (error.problem?.errors ?? []) : [];
  if (error && mistakes.length > 0) {
    return (
      <div className={css.wrong} role="status">
        <strong>{text.wrong(mistakes.length)}</strong>
        <Mistakes error={error} />
      </div>
    );
  }
  if (error) return <Failed error={error} />;
  if (!plan) return <p className="muted">{text.checking}</p>;
  const names = [...(plan.vcs ?? []), ...(plan.nodes ?? []), ...(plan.skus ?? [])].map((one) => one.name); // a name stays as it is
  const runs = plan.running ?? [];
  const waits = plan.waiting ?? [];
  const starts = plan.starting ?? [];
  return (
    <>
      <Words title={text.effects} lines={plan.effects ?? []} none={text.nothing} names={names} />
      <Words title={plan.drops ? text.drops : text.ends} lines={plan.ends ?? []} none="" names={names} />
      <Words title={text.warnings} lines={plan.warnings ?? []} none="" names={names} />
      {runs.length + starts.length + waits.length > 0 && <h3>{text.hits}</h3>}
      {runs.length > 0 && <Table label={text.running} columns={running(reader)} rows={runs} rowKey={(r) => `${r.attempt.job} ${r.attempt.gang}`} />}
      {starts.length > 0 && <Table label={text.starting} columns={starting(reader)} rows={starts} rowKey={(s) => `${s.attempt.job} ${s.attempt.gang}`} />}
      {waits.length > 0 && <Table label={text.waiting} columns={waiting(reader)} rows={waits} rowKey={(w) => String(w.job)} />}
    </>
  );
}

function Job({ id, name }: { id: number; name: string }) {
  return <Link to="/jobs/$job" params={{ job: String(id) }}>{name}</Link>;
}

// Cut is what may be longer than its column: in full on hover.
function Cut({ words }: { words: string }) {
  return <span title={words}>{words}</span>;
}

type Running = NonNullable<ConfigPlanned['running']>[number];
type Waiting = NonNullable<ConfigPlanned['waiting']>[number];
type Starting = NonNullable<ConfigPlanned['starting']>[number];

// stopsOf is how many jobs a plan stops, for good or until there is room for them.
export function stopsOf(plan: ConfigPlanned | undefined): number {
  return new Set((plan?.running ?? []).filter((r) => r.fate === 'stopped' || r.fate === 'moves').map((r) => r.attempt.job)).size;
}

const running = (reader: string): Column<Running>[] => [
  { key: 'job', head: text.running, narrow: 'title', cell: (r) => <Job id={r.attempt.job} name={refOf(r, reader)} /> },
  { key: 'fate', head: text.fate, grow: true, cell: (r) => <Cut words={[text.fates[r.fate] ?? r.fate, r.never].filter(Boolean).join(': ')} /> },
];

const starting = (reader: string): Column<Starting>[] => [
  { key: 'job', head: text.starting, narrow: 'title', cell: (s) => <Job id={s.attempt.job} name={refOf(s, reader)} /> },
  { key: 'vc', head: text.vc, cell: (s) => s.vc },
  { key: 'where', head: text.where, named: true, cell: (s) => (s.nodes ?? []).join(', ') || '–' },
  { key: 'how', head: text.how, grow: true, cell: (s) => <Cut words={howOf(s, reader)} /> },
];

function howOf(s: Starting, reader: string): string {
  const after = (s.after ?? []).map((j) => refOf(j, reader));
  return [s.guaranteed ? text.guaranteed : text.borrowed, s.moves && text.moves, after.length > 0 && text.after(after)].filter(Boolean).join(', ');
}

const waiting = (reader: string): Column<Waiting>[] => [
  { key: 'job', head: text.waiting, narrow: 'title', cell: (w) => <Job id={w.job} name={refOf(w, reader)} /> },
  { key: 'fate', head: text.fate, grow: true, cell: (w) => <Cut words={text.fates[w.fate] ?? w.fate} /> },
];

function Words({ title, lines, none, names }: { title: string; lines: string[]; none: string; names: string[] }) {
  if (lines.length === 0) return none === '' ? null : <p className="muted">{none}</p>;
  return (
    <div>
      <h3>{title}</h3>
      <ul className={css.words}>
        {lines.map((l, i) => (
          <li key={`${i} ${l}`}>{sentence(l, ...names)}</li>
        ))}
      </ul>
    </div>
  );
}
