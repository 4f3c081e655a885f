import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { jobsQuery } from '../../api/jobs';
import { meQuery } from '../../api/people';
import { JobTable } from '../../parts/JobTable';
import { mayWith } from '../../parts/rights';
import { hasEnded } from '../../parts/state';
import { text } from '../../text/jobs';
import { Empty } from '../../ui/Empty';
import { Failed } from '../../ui/Failed';
import { LinkButton } from '../../ui/LinkButton';
import { Loading } from '../../ui/Loading';
import { Page } from '../../ui/Page';
import { filterOf, serverSort, useAddress } from './address';
import { Filters } from './Filters';
import css from './jobs.module.css';
import { StopMany } from './StopMany';

export function Jobs() {
  const { address, go } = useAddress();
  const jobs = useQuery(jobsQuery(filterOf(address)));
  const me = useQuery(meQuery);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const choose = (refs: string[], on: boolean) => {
    const next = new Set(chosen);
    for (const r of refs) {
      if (on) next.add(r);
      else next.delete(r);
    }
    setChosen(next);
  };
  const rows = jobs.data?.jobs ?? [];
  const whole = serverSort(address) !== ''; // the order is one of all pages
  const more = !!jobs.data?.next || !!address.cursor;
  const picked = rows.filter((j) => chosen.has(String(j.id)) && !hasEnded(j)); // what is not seen is not stopped
  return (
    <Page
      title={text.title}
      actions={
        <>
          {picked.length > 0 && <StopMany jobs={picked} onDone={() => setChosen(new Set())} />}
          <LinkButton to="/submit">
            {text.submit}
          </LinkButton>
        </>
      }
    >
      <Filters address={address} onGo={go} />
      {jobs.isPending && <Loading rows={8} />}
      {jobs.error && <Failed error={jobs.error} onRetry={() => void jobs.refetch()} />}
      {jobs.data && rows.length === 0 && <Nothing filtered={Object.keys(address).length > 0} onClear={() => go({})} />}
      {rows.length > 0 && (
        <div className={css.list} data-old={jobs.isPlaceholderData || undefined} aria-busy={jobs.isPlaceholderData}>
          <JobTable jobs={rows} label={address.sort ? text.title : text.list} may={(j) => mayWith(me.data, 'stop or change the job', j)} chosen={chosen} onChoose={choose} sorted={address.sort ?? ''} ordered={whole} onSort={(sort) => go({ ...address, sort, cursor: whole || serverSort({ ...address, sort }) !== '' ? '' : (address.cursor ?? '') })} />
          <div className={css.foot}>
            <span className="meta">{text.page(rows.length, more)}{address.sort && more ? ` · ${whole ? text.sortedAll : text.sortedPage}` : ''}</span>
            {address.cursor && (
              <Button size="xs" variant="default" onClick={() => go({ ...address, cursor: '' })}>
                {whole ? text.firstPage : text.first}
              </Button>
            )}
            {jobs.data?.next && (
              <Button size="xs" variant="default" onClick={() => go({ ...address, cursor: jobs.data.next ?? '' })}>
                {whole ? text.nextPage : text.next}
              </Button>
            )}
          </div>
        </div>
      )}
    </Page>
  );
}

function Nothing({ filtered, onClear }: { filtered: boolean; onClear: () => void }) {
  if (!filtered) return <Empty title={text.noneYet}>{text.noneYetWhy}</Empty>;
  return (
    <Empty title={text.noneMatch}>
      <Button size="xs" variant="default" onClick={onClear}>
        {text.clear}
      </Button>
    </Empty>
  );
}
