import { Button, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Suspense, useEffect, useState } from 'react';
import { Failure, newKey } from '../../api/client';
import { applyConfig, planConfig } from '../../api/cluster';
import type { FieldError } from '../../api/wire';
import { EditorPlace } from '../../parts/EditorPlace';
import { text } from '../../text/config';
import { Ask } from '../../ui/Ask';
import { lazyPart } from '../../ui/lazy';
import css from './config.module.css';
import { Plan, stopsOf } from './Plan';
import { useDraft } from './useDraft';
import { Versions } from './Versions';

const YamlEditor = lazyPart(() => import('../../parts/YamlEditor').then((m) => m.YamlEditor));
const nothing: FieldError[] = [];

const planned = 15_000; // ms: jobs come and go, and with them what a file would do

// usePlan asks what a file would do, when nothing was typed for a moment; null is no file.
function usePlan(file: string | null, etag: string) {
  const [settled, setSettled] = useState(file);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(file), 500);
    return () => window.clearTimeout(timer);
  }, [file]);
  const q = useQuery({ queryKey: ['plan', settled, etag], queryFn: ({ signal }) => planConfig(settled ?? '', signal), enabled: settled !== null, gcTime: 0, refetchInterval: planned });
  return { data: q.data, error: q.error, fresh: settled === file && !q.isPending };
}

// Bench has the file on one side and what it would do on the other. What is typed is never replaced by what comes.
export function Bench({ user, present, etag }: { user: string; present: string; etag: string }) {
  const [draft, setDraft] = useDraft(user);
  const [key, setKey] = useState('');
  const [reason, setReason] = useState('');
  const file = draft?.file ?? present;
  const plan = usePlan(draft?.file ?? null, etag);
  const cache = useQueryClient();
  const apply = useMutation({
    mutationFn: () => applyConfig(file, { match: plan.data?.etag ?? etag, on: plan.data?.version ?? 0, reason, restores: draft?.restores ?? 0 }, key),
    onSuccess: async () => {
      await cache.invalidateQueries();
      setKey('');
      setDraft(null);
      setReason('');
    },
  });
  const marks = plan.error instanceof Failure ? (plan.error.problem?.errors ?? nothing) : nothing;
  const stops = stopsOf(plan.data);
  const type = (next: string) => setDraft(next === present ? null : { file: next, etag: draft?.etag ?? etag, restores: next === draft?.file ? draft.restores : 0 });
  return (
    <>
    <div className={css.bench}>
      <section className={css.side} aria-label={text.file}>
        <h2>{text.file}</h2>
        <Suspense fallback={<EditorPlace text={file} />}>
          <YamlEditor text={file} label={text.file} marks={marks} onChange={type} />
        </Suspense>
      </section>
      <section className={css.side} aria-label={text.plan} aria-busy={draft !== null && !plan.fresh}>
        <h2>{text.plan}</h2>
        {draft && draft.etag !== etag && <p className={css.stale} role="status">{text.stale}</p>}
        {draft ? <Plan plan={plan.data} error={plan.error} reader={user} /> : <p className="muted">{text.same}</p>}
        {draft && (
          <div className={css.buttons}>
            <Button disabled={!plan.data || !plan.fresh} {...(stops ? { color: 'red' } : {})} onClick={() => setKey(newKey())}>{text.apply}</Button>
            <Button variant="default" onClick={() => setDraft(null)}>{text.reset}</Button>
          </div>
        )}
      </section>
      {key && (
        <Ask ends={stops > 0} title={stops > 0 ? text.applyStops(stops) : text.applyTitle} act={apply.isPending ? text.applying : text.apply} busy={apply.isPending} error={apply.error} onAct={() => apply.mutate()} onClose={() => (apply.reset(), setKey(''))}>
          <p>{text.applyWhy}</p>
          <TextInput label={text.applyReason} maxLength={1000} value={reason} onChange={(e) => setReason(e.currentTarget.value)} data-autofocus={stops === 0 || undefined} />
        </Ask>
      )}
    </div>
    <Versions onTake={(version, taken) => setDraft(taken === present ? null : { file: taken, etag, restores: version })} />
    </>
  );
}
