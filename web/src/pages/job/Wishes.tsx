import { Button, NumberInput, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { newKey } from '../../api/client';
import { holdJob, releaseJob, requeueJob, updateJob } from '../../api/jobs';
import type { Job } from '../../api/wire';
import { text, wish } from '../../text/job';
import { Ask } from '../../ui/Ask';

type Verb = 'hold' | 'release' | 'requeue' | 'update';

// verbsOf are what may be wished of a job as it is.
function verbsOf(job: Job): Verb[] {
  if (job.stopping) return [];
  if (job.phase === 'Active') return ['requeue'];
  return job.held ? ['release', 'update'] : ['hold', 'update'];
}

// Wishes are what may be wished of a job besides its end.
export function Wishes({ job }: { job: Job }) {
  const [open, setOpen] = useState<{ verb: Verb; key: string } | null>(null);
  return (
    <>
      {verbsOf(job).map((verb) => (
        <Button key={verb} variant="default" onClick={() => setOpen({ verb, key: newKey() })}>
          {wish[verb].act}
        </Button>
      ))}
      {open && <One key={open.key} job={job} verb={open.verb} idempotency={open.key} onClose={() => setOpen(null)} />}
    </>
  );
}

interface Props {
  job: Job;
  verb: Verb;
  idempotency: string;
  onClose: () => void;
}

function One({ job, verb, idempotency, onClose }: Props) {
  const [reason, setReason] = useState('');
  const [priority, setPriority] = useState<number | string>(job.priority);
  const ref = String(job.id);
  const act = useMutation({
    mutationFn: () => {
      if (verb === 'hold') return holdJob(ref, reason, idempotency);
      if (verb === 'release') return releaseJob(ref, idempotency);
      if (verb === 'requeue') return requeueJob(ref, reason, idempotency);
      return updateJob(ref, Number(priority), idempotency);
    },
    onSuccess: onClose,
  });
  const w = wish[verb];
  return (
    <Ask title={w.title(job.ref)} act={act.isPending ? text.doing : w.act} busy={act.isPending} error={act.error} onAct={() => act.mutate()} onClose={onClose}>
      <p>{w.why}</p>
      {(verb === 'hold' || verb === 'requeue') && <TextInput label={text.reason} maxLength={1000} value={reason} onChange={(e) => setReason(e.currentTarget.value)} data-autofocus />}
      {verb === 'update' && <NumberInput label={text.newPriority} required withAsterisk={false} min={-1} max={1000} allowDecimal={false} value={priority} onChange={setPriority} data-autofocus />}
    </Ask>
  );
}
