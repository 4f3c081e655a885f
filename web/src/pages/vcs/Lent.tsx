import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { cellsQuery } from '../../api/cluster';
import type { VC } from '../../api/wire';
import { count } from '../../format/quantity';
import { type Loan, loansOf } from '../../parts/lent';
import { text } from '../../text/vcs';
import { Section } from '../../ui/Page';
import { type Column, Table } from '../../ui/Table';

const columns: Column<Loan>[] = [
  { key: 'to', head: text.to, narrow: 'title', cell: (l) => l.to || <span className="muted">{text.toOthers}</span> },
  { key: 'devices', head: text.devices, align: 'right', cell: (l) => count(l.gpus) },
  {
    key: 'jobs', head: text.jobs, grow: true,
    cell: (l) =>
      l.jobs.map((j, i) => (
        <span key={j.id}>
          {i > 0 && ', '}
          <Link to="/jobs/$job" params={{ job: String(j.id) }}>{j.ref}</Link>
        </span>
      )),
  },
];

// Lent says to whom a virtual cluster lends what it does not use.
export function Lent({ vc }: { vc: VC }) {
  const cells = useQuery(cellsQuery);
  const loans = cells.data ? loansOf(cells.data, vc) : [];
  if (loans.length === 0) return null;
  return (
    <Section title={text.lentTo}>
      <Table label={text.lentTo} columns={columns} rows={loans} rowKey={(l) => l.to} />
    </Section>
  );
}
