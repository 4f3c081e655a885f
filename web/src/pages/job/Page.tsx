import { useQuery } from '@tanstack/react-query';
import { Link, useParams, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import { Failure } from '../../api/client';
import { jobQuery } from '../../api/jobs';
import { meQuery } from '../../api/people';
import type { Job } from '../../api/wire';
import { count } from '../../format/quantity';
import { LogView } from '../../parts/LogView';
import { mayWith } from '../../parts/rights';
import { firstFailed, stateOf } from '../../parts/state';
import { text as common } from '../../text/common';
import { text } from '../../text/job';
import { Ago } from '../../ui/Ago';
import { Empty } from '../../ui/Empty';
import { Failed } from '../../ui/Failed';
import { Loading } from '../../ui/Loading';
import { Fact, Page } from '../../ui/Page';
import { State } from '../../ui/State';
import { Actions } from './Actions';
import { Events } from './Events';
import { JobFile } from './JobFile';
import css from './job.module.css';
import { Outcome } from './Outcome';
import { Overview } from './Overview';

const tabs = [
  { id: '', name: text.overview },
  { id: 'log', name: text.log },
  { id: 'events', name: text.events },
  { id: 'file', name: text.file },
] as const;

export function JobPage() {
  const { job: ref } = useParams({ from: '/jobs/$job' });
  const job = useQuery(jobQuery(ref));
  if (job.data) return <OneJob key={job.data.id} job={job.data} />;
  return (
    <Page title={ref}>
      {job.error ? <NoJob name={ref} error={job.error} onRetry={() => void job.refetch()} /> : <Loading />}
    </Page>
  );
}

function NoJob({ name, error, onRetry }: { name: string; error: Error; onRetry: () => void }) {
  if (!(error instanceof Failure && error.status === 404)) return <Failed error={error} onRetry={onRetry} />;
  return (
    <div role="alert">
      <Empty title={common.notFound}>
        {text.noJob(name)} <Link to="/jobs">{text.toJobs}</Link>
      </Empty>
    </div>
  );
}

function OneJob({ job }: { job: Job }) {
  const search: { tab?: string } = useSearch({ strict: false });
  const me = useQuery(meQuery).data;
  // A failed job opens at its first error. One that fails while its page is read leaves it as it is.
  const [atError] = useState(() => firstFailed(job) !== undefined && mayWith(me, "read the job's file, logs and events", job));
  const home = atError ? 'log' : '';
  const tab = tabs.find((t) => t.id !== '' && t.id === search.tab)?.id ?? (search.tab ? '' : home);
  return (
    <Page title={job.ref} beside={<State state={stateOf(job)} />} facts={<Facts job={job} />} actions={<Actions job={job} />}>
      <nav className={css.tabs} aria-label={text.tabs}>
        {tabs.map((t) => (
          <Link key={t.id} to="/jobs/$job" params={{ job: String(job.id) }} search={t.id || atError ? { tab: t.id || 'overview' } : {}} activeOptions={{ exact: true, includeSearch: true }} aria-current={t.id === tab ? 'page' : undefined} resetScroll={false}>
            {t.name}
          </Link>
        ))}
      </nav>
      {tab === 'log' && (
        <div className={css.log} data-outcome={atError || undefined}>
          {atError && <Outcome job={job} aboveLog />}
          <LogView job={job} />
        </div>
      )}
      {tab === 'events' && <Events id={String(job.id)} />}
      {tab === 'file' && <JobFile id={String(job.id)} />}
      {tab === '' && <Overview job={job} />}
    </Page>
  );
}

function Facts({ job }: { job: Job }) {
  return (
    <>
      <Fact name={text.number}>{job.id}</Fact>
      <Fact name={text.user}>{job.user}</Fact>
      <Fact name={text.vc}>
        <Link to="/vcs/$vc" params={{ vc: job.vc }}>
          {job.vc}
        </Link>
      </Fact>
      <Fact name={text.priority}>{job.priority < 0 ? text.opportunistic : job.priority}</Fact>
      <Fact name={text.gpus}>{count(job.gpus)}</Fact>
      <Fact name={text.submitted}>
        <Ago at={job.submitted} />
      </Fact>
      {job.held && (
        <Fact name={text.heldBy}>{[job.held.by, job.held.reason].filter(Boolean).join(': ')}</Fact>
      )}
      {job.started ? (
        <Fact name={text.started}>
          <Ago at={job.started} />
        </Fact>
      ) : null}
      {job.ended ? (
        <Fact name={text.ended}>
          <Ago at={job.ended} />
        </Fact>
      ) : null}
      {(job.tags ?? []).length > 0 && (
        <Fact name={text.tags}>
          {(job.tags ?? []).map((t) => (
            <Link key={t} to="/jobs" search={{ tag: t }} className={css.tag ?? ''}>
              {t}
            </Link>
          ))}
        </Fact>
      )}
      {job.preempted > 0 && <Fact name={text.preemptions}>{text.times(job.preempted)}</Fact>}
    </>
  );
}
