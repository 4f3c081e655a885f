import { Button } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { newKey } from '../../api/client';
import { stopJob } from '../../api/jobs';
import { meQuery } from '../../api/people';
import type { Job } from '../../api/wire';
import { hasEnded } from '../../parts/state';
import { mayWith } from '../../parts/rights';
import { text } from '../../text/job';
import { Ask } from '../../ui/Ask';
import { LinkButton } from '../../ui/LinkButton';
import { Wishes } from './Wishes';

export function Actions({ job }: { job: Job }) {
  const [key, setKey] = useState('');
  const me = useQuery(meQuery);
  const stop = useMutation({ mutationFn: () => stopJob(String(job.id), key), onSuccess: () => setKey('') });
  return (
    <>
      {mayWith(me.data, "read the job's file, logs and events", job) && (
        <LinkButton variant="default" to="/submit" search={{ from: String(job.id) }}>
          {text.clone}
        </LinkButton>
      )}
      {!hasEnded(job) && mayWith(me.data, 'stop or change the job', job) && <Wishes job={job} />}
      {!hasEnded(job) && mayWith(me.data, 'stop or change the job', job) && (
        <Button variant="default" color="red" disabled={!!job.stopping} onClick={() => setKey(newKey())}>
          {job.stopping ? text.stopping : text.stop}
        </Button>
      )}
      {key && (
        <Ask ends title={text.stopTitle(job.ref)} act={stop.isPending ? text.stopping : text.stop} busy={stop.isPending} error={stop.error} onAct={() => stop.mutate()} onClose={() => (stop.reset(), setKey(''))}>
          <p>{text.stopWhy}</p>
        </Ask>
      )}
    </>
  );
}
