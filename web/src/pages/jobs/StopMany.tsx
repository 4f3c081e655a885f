import { Button } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { newKey } from '../../api/client';
import { stopJob } from '../../api/jobs';
import { text } from '../../text/jobs';
import { Ask } from '../../ui/Ask';

// StopMany stops several jobs; one that has ended meanwhile does not keep the others.
export function StopMany({ refs, onDone }: { refs: string[]; onDone: () => void }) {
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
          <p>{text.stopWhy(refs.length)}</p>
        </Ask>
      )}
    </>
  );
}
