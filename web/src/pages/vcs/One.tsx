import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { configQuery, vcsQuery } from '../../api/cluster';
import { anyJob, jobsQuery } from '../../api/jobs';
import { meQuery } from '../../api/people';
import type { VC } from '../../api/wire';
import { count } from '../../format/quantity';
import { JobTable } from '../../parts/JobTable';
import { may } from '../../parts/rights';
import { VCBar } from '../../parts/VCBar';
import { text as common } from '../../text/common';
import { text } from '../../text/vcs';
import { type Piece, Track } from '../../ui/Bar';
import { Empty } from '../../ui/Empty';
import { Failed } from '../../ui/Failed';
import { Loading } from '../../ui/Loading';
import { Fact, Page, Section } from '../../ui/Page';
import { type Column, Table } from '../../ui/Table';
import { Lent } from './Lent';

export function OneVC() {
  const { vc: name } = useParams({ from: '/vcs/$vc' });
  const vcs = useQuery(vcsQuery);
  const me = useQuery(meQuery);
  const vc = vcs.data?.vcs?.find((v) => v.name === name);
  const role = me.data?.vcs?.find((v) => v.name === name)?.role;
  return (
    <Page title={name} facts={vc && <Facts vc={vc} role={role} />}>
      {vcs.error && <Failed error={vcs.error} onRetry={() => void vcs.refetch()} />}
      {vcs.isPending && <Loading />}
      {vcs.data && !vc && (
        <Empty title={common.notFound}>
          {text.noSuch(name)} <Link to="/vcs">{text.toAll}</Link>
        </Empty>
      )}
      {vc && <Parts key={vc.name} vc={vc} />}
    </Page>
  );
}

function Facts({ vc, role }: { vc: VC; role: string | undefined }) {
  return (
    <>
      <Fact name={text.policy}>{vc.policy}</Fact>
      {vc.parent && (
        <Fact name={text.parent}>
          <Link to="/vcs/$vc" params={{ vc: vc.parent }}>
            {vc.parent}
          </Link>
        </Fact>
      )}
      {vc.backfill && <Fact name={text.backfill}>{vc.backfill}</Fact>}
      <Fact name={text.running}>{count(vc.active)}</Fact>
      <Fact name={text.waiting}>{count(vc.waiting)}</Fact>
      {role && <Fact name={text.role}>{role}</Fact>}
      <Members vc={vc.name} />
    </>
  );
}

// Members are the groups that the cluster file lets in, for those who may see it.
function Members({ vc }: { vc: string }) {
  const me = useQuery(meQuery);
  const config = useQuery({ ...configQuery, enabled: may(me.data, 'see the cluster file') });
  const grant = config.data?.config.access?.find((g) => g.vc === vc);
  const kinds = [[text.members, grant?.members], [text.admins, grant?.administrators], [text.viewers, grant?.viewers]] as const;
  return kinds.map(([name, groups]) => groups && groups.length > 0 && <Fact key={name} name={name}>{groups.join(', ')}</Fact>);
}

type Quota = NonNullable<VC['cells']>[number];

// boundOf are the cells of a type that are bound to cells of the cluster at the moment, and those that are not.
function boundOf(q: Quota): Piece[] {
  const left = Math.max(0, q.total - q.bound);
  return [
    { kind: 'used', size: q.bound, name: text.boundOf(q.bound, q.total) },
    { kind: 'free', size: left, name: text.notBound(left) },
  ];
}

const quota: Column<Quota>[] = [
  { key: 'cell', head: text.cell, narrow: 'title', cell: (q) => q.type },
  { key: 'chain', head: text.chain, cell: (q) => <span className="muted">{q.chain}</span> },
  { key: 'pinned', head: text.pinned, named: true, cell: (q) => q.pinned ?? '–' },
  { key: 'use', head: text.use, grow: true, cell: (q) => <Track label={[q.type, q.pinned].filter(Boolean).join(' ')} pieces={boundOf(q)} /> },
  { key: 'bound', head: text.bound, align: 'right', cell: (q) => count(q.bound) },
  { key: 'total', head: text.total, align: 'right', cell: (q) => count(q.total) },
];

function Parts({ vc }: { vc: VC }) {
  return (
    <>
      {vc.failed && <Failed error={new Error(`${text.failed}: ${vc.failed.why ?? ''}`)} />}
      <Section title={text.usage}>
        <VCBar vc={vc} />
      </Section>
      <Lent vc={vc} />
      <Section title={text.quota}>
        <Table label={text.quota} columns={quota} rows={vc.cells ?? []} rowKey={(q) => `${q.chain} ${q.level} ${q.pinned ?? ''}`} />
      </Section>
      <Queue vc={vc} />
      <Running vc={vc.name} active={vc.active} />
    </>
  );
}

const shownInLine = 200;

// Queue is what waits, in the order in which it is served.
function Queue({ vc }: { vc: VC }) {
  const jobs = useQuery(jobsQuery({ ...anyJob, vc: [vc.name], sort: 'place', limit: shownInLine }));
  const rows = jobs.data?.jobs ?? [];
  return (
    <Section title={text.queue} aside={rows.length === shownInLine && vc.waiting > shownInLine ? text.firstOf(rows.length, vc.waiting) : undefined}>
      {jobs.error && <Failed error={jobs.error} onRetry={() => void jobs.refetch()} />}
      {jobs.isPending && <Loading />}
      {jobs.data && rows.length === 0 && <p className="muted">{vc.waiting > 0 ? text.queueHidden(vc.waiting) : text.queueNone}</p>}
      {rows.length > 0 && <JobTable jobs={rows} label={text.queue} without={['vc', 'ends']} />}
    </Section>
  );
}

function Running({ vc, active }: { vc: string; active: number }) {
  const jobs = useQuery(jobsQuery({ ...anyJob, vc: [vc], state: ['Active'] }));
  const rows = jobs.data?.jobs ?? [];
  return (
    <Section title={text.active} aside={jobs.data?.next ? common.shown(rows.length) : undefined}>
      {jobs.error && <Failed error={jobs.error} onRetry={() => void jobs.refetch()} />}
      {jobs.isPending && <Loading />}
      {jobs.data && rows.length === 0 && <p className="muted">{active > 0 ? text.activeHidden(active) : text.activeNone}</p>}
      {rows.length > 0 && <JobTable jobs={rows} label={text.active} without={['vc', 'starts']} />}
    </Section>
  );
}
