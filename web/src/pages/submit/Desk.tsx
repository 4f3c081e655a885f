import { Button, Select } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { Suspense, useRef } from 'react';
import { Failure, newKey } from '../../api/client';
import { submitJob } from '../../api/jobs';
import type { FieldError } from '../../api/wire';
import { text } from '../../text/submit';
import { EditorPlace } from '../../parts/EditorPlace';
import { forgetDraft } from '../../parts/kept';
import { lazyPart } from '../../ui/lazy';
import { useDraft } from './draft';
import { fixed } from './fix';
import { Form } from './Form';
import css from './submit.module.css';
import { inVC, useOwnVC } from './own';
import { begun, groups } from './templates';
import { isOff, useVerdict } from './useVerdict';
import { Verdict } from './Verdict';

const YamlEditor = lazyPart(() => import('../../parts/YamlEditor').then((m) => m.YamlEditor));
const nothing: FieldError[] = [];

// Desk has form and file side by side, and below the form what would happen.
export function Desk({ user, begin, fresh }: { user: string; begin: string; fresh: boolean }) {
  const draft = useDraft(user, begin, fresh);
  const verdict = useVerdict(draft.text);
  const vc = useOwnVC();
  const navigate = useNavigate();
  const sent = useRef({ text: '', key: '' }); // the same text again is the same command, another one is not
  const submit = useMutation({
    mutationFn: (file: string) => {
      if (sent.current.text !== file) sent.current = { text: file, key: newKey() };
      return submitJob(file, sent.current.key);
    },
    onSuccess: (s) => {
      forgetDraft('job');
      void navigate({ to: '/jobs/$job', params: { job: String(s.id) } });
    },
    onError: (e) => {
      if (e instanceof Failure && e.status !== 0) sent.current = { text: '', key: '' };
    },
  });
  const marks = verdict.error instanceof Failure ? (verdict.error.problem?.errors ?? nothing) : nothing;
  const masked = draft.text.includes('"******"') || draft.text.includes(' ******');
  return (
    <div className={css.desk}>
      <form
        className={css.side}
        aria-label={text.form}
        onSubmit={(e) => {
          e.preventDefault();
          if (!(verdict.fresh && isOff(verdict))) submit.mutate(draft.text);
        }}
      >
        {masked && <p className={css.warn}>{text.masked}</p>}
        <Form draft={draft} template={<Template onTake={(name) => draft.setText(begun(name, vc ?? 'default', inVC) ?? draft.text)} />} />
        <div className={css.foot}>
          <Verdict verdict={verdict} failed={submit.variables === draft.text ? submit.error : null} onUse={(change) => draft.setText(fixed(draft.text, change))} />
          <Button type="submit" fullWidth disabled={submit.isPending || (verdict.fresh && isOff(verdict))}>
            {submit.isPending ? text.submitting : text.submit}
          </Button>
        </div>
      </form>
      <section className={css.side} aria-label={text.file}>
        <h2>{text.file}</h2>
        <Suspense fallback={<EditorPlace text={draft.text} />}>
          <YamlEditor text={draft.text} label={text.file} marks={marks} onChange={draft.setText} />
        </Suspense>
        <p className="meta">{text.fileHint}</p>
      </section>
    </div>
  );
}

function Template({ onTake }: { onTake: (name: string | null) => void }) {
  return <Select label={text.template} placeholder={text.templates} data={groups} value={null} onChange={onTake} />;
}
