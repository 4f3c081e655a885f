import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { vcsQuery } from '../../api/cluster';
import { anyJob, jobsQuery } from '../../api/jobs';
import { meQuery } from '../../api/people';
import type { Job } from '../../api/wire';
import { JobTable } from '../../parts/JobTable';
import { VCList } from '../../parts/VCList';
import { text } from '../../text/home';
import { Ago } from '../../ui/Ago';
import { Empty } from '../../ui/Empty';
import { Failed } from '../../ui/Failed';
import { LinkButton } from '../../ui/LinkButton';
import { Loading } from '../../ui/Loading';
import { Page, Section } from '../../ui/Page';
import { type Column, Table } from '../../ui/Table';
import { Bad } from './Bad';
import { States } from './States';

// Home answers first: what of mine waits or runs, and why.
export function Home() {
  const me = useQuery(meQuery);
  const user = me.data?.name ?? '';
  // What stands below comes when what is above it has its height: nothing moves while the page loads.
  const mine = [useQuery(liveQuery(user)).isPending, useQuery(soonQuery(user)).isPending].includes(true);
  const vcs = useQuery(vcsQuery).isPending;
  return (
    <Page
      title={text.title}
      actions={
        <LinkButton to="/submit">
          {text.submit}
        </LinkButton>
      }
    >
      <Mine user={user} />
      {!mine && <MyVCs />}
      {!mine && !vcs && <Bad />}
    </Page>
  );
}

const liveQuery = (user: string) => jobsQuery({ ...anyJob, user: [user], state: ['Waiting', 'Active'], limit: 20 });
const soonQuery = (user: string) => jobsQuery({ ...anyJob, user: [user], state: ['Active'], sort: 'left', limit: 5 });

function Mine({ user }: { user: string }) {
  const live = useQuery(liveQuery(user));
  const jobs = live.data?.jobs ?? [];
  const soon = useQuery(soonQuery(user));
  const ending = (soon.data?.jobs ?? []).filter((j) => j.outlook?.ends);
  const cache = useQueryClient();
  const error = live.error ?? soon.error;
  return (
    <>
      <Section title={text.mine} aside={<Link to="/jobs" search={{ user }}>{live.data?.next ? text.more(jobs.length) : text.all}</Link>}>
        <States user={user} />
        {error && <Failed error={error} onRetry={() => void cache.refetchQueries({ queryKey: ['jobs'] })} /> /* the counts above, too */}
        {(live.isPending || soon.isPending) && <Loading />}
        {live.data && !soon.isPending && jobs.length === 0 && <Empty title={text.none}>{text.noneWhy}</Empty>}
        {jobs.length > 0 && !soon.isPending && <JobTable jobs={jobs} label={text.mine} without={same} />}
      </Section>
      {ending.length > 0 && (
        <Section title={text.ending} aside={text.endingWhy}>
          <Table label={text.ending} columns={endings} rows={ending} rowKey={(j) => String(j.id)} />
        </Section>
      )}
    </>
  );
}

const same = ['user', 'submitted']; // all are the reader's, and how long each has waited stands beside

const endings: Column<Job>[] = [
  { key: 'job', head: text.job, narrow: 'title', cell: (j) => <Link to="/jobs/$job" params={{ job: String(j.id) }}>{j.ref}</Link> },
  { key: 'ends', head: text.ends, cell: (j) => <>{j.outlook?.last && text.latest} <Ago at={j.outlook?.ends} /></> },
  { key: 'basis', head: text.basis, grow: true, cell: (j) => <span className="muted">{j.outlook?.basis ?? ''}</span> },
];

function MyVCs() {
  const me = useQuery(meQuery);
  const vcs = useQuery(vcsQuery);
  const mine = new Set((me.data?.vcs ?? []).map((v) => v.name));
  const shown = (vcs.data?.vcs ?? []).filter((v) => mine.has(v.name));
  return (
    <Section title={text.vcs}>
      {vcs.error && <Failed error={vcs.error} onRetry={() => void vcs.refetch()} />}
      {vcs.isPending && <Loading rows={3} />}
      {vcs.data && shown.length === 0 && <Empty title={text.noVC}>{text.noVCWhy}</Empty>}
      {shown.length > 0 && <VCList vcs={shown} />}
    </Section>
  );
}
