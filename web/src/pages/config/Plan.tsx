import { Failure } from '../../api/client';
import type { ConfigPlanned } from '../../api/wire';
import { text } from '../../text/config';
import { Failed, Mistakes } from '../../ui/Failed';
import { type Column, Table } from '../../ui/Table';
import css from './config.module.css';

// Plan shows what a file would do, as the server works it out: in words, then each job that is hit.
export function Plan({ plan, error }: { plan: ConfigPlanned | undefined; error: Error | null }) {
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
  const runs = plan.running ?? [];
  const waits = plan.waiting ?? [];
  return (
    <>
      <Words title={text.effects} lines={plan.effects ?? []} none={text.nothing} />
      <Words title={text.warnings} lines={plan.warnings ?? []} none="" />
      {runs.length > 0 && <Table label={text.running} columns={running} rows={runs} rowKey={(r) => `${r.attempt.job} ${r.attempt.gang}`} />}
      {waits.length > 0 && <Table label={text.waiting} columns={waiting} rows={waits} rowKey={(w) => String(w.job)} />}
    </>
  );
}

type Running = NonNullable<ConfigPlanned['running']>[number];
type Waiting = NonNullable<ConfigPlanned['waiting']>[number];

const running: Column<Running>[] = [
  { key: 'job', head: text.running, narrow: 'title', cell: (r) => r.name },
  { key: 'fate', head: text.fate, grow: true, cell: (r) => [r.fate, r.never].filter(Boolean).join(': ') },
];

const waiting: Column<Waiting>[] = [
  { key: 'job', head: text.waiting, narrow: 'title', cell: (w) => w.name },
  { key: 'fate', head: text.fate, grow: true, cell: (w) => w.fate },
];

function Words({ title, lines, none }: { title: string; lines: string[]; none: string }) {
  if (lines.length === 0) return none === '' ? null : <p className="muted">{none}</p>;
  return (
    <div>
      <h3>{title}</h3>
      <ul className={css.words}>
        {lines.map((l) => (
          <li key={l}>{l}</li>
        ))}
      </ul>
    </div>
  );
}
