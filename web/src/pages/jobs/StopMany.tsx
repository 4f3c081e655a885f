import { Button } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { newKey } from '../../api/client';
import { stopJob } from '../../api/jobs';
import type { Job } from '../../api/wire';
import { text } from '../../text/jobs';
import { Ask } from '../../ui/Ask';
import css from './jobs.module.css';

const named = 10;

// StopMany stops several jobs; one that has ended meanwhile does not keep the others.
export function StopMany({ jobs, onDone }: { jobs: Job[]; onDone: () => void }) {
  const refs = jobs.map((j) => String(j.id));
  const [key, setKey] = useState('');
  const stop = useMutation({
    mutationFn: async () => {
      const results = await Promise.allSettled(refs.map((r) => stopJob(r, `${key}-${r}`)));
      const wrong = results.find((r) => r.status === 'rejected');
      if (wrong) throw wrong.reason;
    },
    onSuccess: () => {
      setKey('');
      onDone();
    },
  });
  return (
    <>
      <Button variant="default" color="red" onClick={() => setKey(newKey())}>
        {text.stop(refs.length)}
      </Button>
      {key && (
        <Ask ends title={text.stopTitle(refs.length)} act={stop.isPending ? text.stopping : text.stop(refs.length)} busy={stop.isPending} error={stop.error} onAct={() => stop.mutate()} onClose={() => (stop.reset(), setKey(''))}>
          <ul className={css.named} aria-label={text.stopped}>
            {jobs.slice(0, named).map((j) => (
              <li key={j.id}>{j.ref}</li>
            ))}
            {jobs.length > named && <li className="muted">{text.more(jobs.length - named)}</li>}
          </ul>
          <p>{text.stopWhy(refs.length)}</p>
        </Ask>
      )}
    </>
  );
}
