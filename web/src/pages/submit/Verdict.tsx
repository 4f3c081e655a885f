import { Button } from '@mantine/core';
import { useId } from 'react';
import { Failure } from '../../api/client';
import type { Explanation, Validated } from '../../api/wire';
import { capital, sentence } from '../../format/sentence';
import { changesOf } from '../../parts/changes';
import { Start } from '../../parts/WhyPanel';
import { text } from '../../text/submit';
import { why } from '../../text/job';
import { colours, shapes, type Tone } from '../../theme/states';
import { Failed, Mistakes } from '../../ui/Failed';
import { Icon } from '../../ui/Icon';
import css from './submit.module.css';

interface Props {
  verdict: { data: Validated | undefined; error: Error | null; fresh: boolean };
  failed: Error | null;
  onUse: (change: Record<string, string>) => void; // changes the job as a suggestion says
}

const heads: Record<Validated['verdict'], { tone: Tone; word: string }> = {
  starts: { tone: 'running', word: text.starts },
  waits: { tone: 'waiting', word: text.waits },
  never: { tone: 'failed', word: text.never },
};

// Verdict says, while one types, what the server would do with the job.
export function Verdict({ verdict, failed, onUse }: Props) {
  const { data, error, fresh } = verdict;
  const mistakes = error instanceof Failure ? (error.problem?.errors ?? []) : [];
  return (
    <section className={css.verdict} aria-label={text.verdict} aria-live="polite" aria-busy={!fresh}>
      {!data && !error && <p className="muted">{text.checking}</p>}
      {error && (mistakes.length > 0 || (error instanceof Failure && error.status === 422)) ? (
        <>
          <Head tone="failed" word={mistakes.length > 0 ? text.wrong(mistakes.length) : text.never} />
          <Mistakes error={error} />
        </>
      ) : (
        error && <Failed error={error} of="acting" />
      )}
      {data && <Told data={data} onUse={onUse} />}
      {failed && failed.message !== error?.message && <Failed error={failed} of="acting" />}
    </section>
  );
}

function Head({ tone, word }: { tone: Tone; word: string }) {
  return (
    <p className={css.head} style={{ color: colours[tone] }}>
      <Icon path={shapes[tone]} /> {word}
    </p>
  );
}

function Told({ data, onUse }: { data: Validated; onUse: Props['onUse'] }) {
  const head = heads[data.verdict];
  return (
    <>
      <Head tone={head.tone} word={head.word} />
      {data.message && <p>{sentence(data.message, data.explanation?.vc ?? '')}</p>}
      {data.standing && <p className="muted">{capital(data.standing)}.</p>}
      {data.verdict === 'waits' && (
        <p>
          <span className="muted">{why.start}</span> <Start estimate={data.explanation?.estimate} />
        </p>
      )}
      {data.explanation && <Fits explanation={data.explanation} onUse={onUse} />}
      {data.explanation && <Where explanation={data.explanation} />}
      {(data.warnings ?? []).length > 0 && (
        <div className={css.warnings}>
          <strong>{text.warnings}</strong>
          <ul>
            {(data.warnings ?? []).map((w) => (
              <li key={w}>{w}</li>
            ))}
          </ul>
        </div>
      )}
    </>
  );
}

const mostFits = 3;

// Fits are changes of the job with which the deciding code was seen to start it.
function Fits({ explanation, onUse }: { explanation: Explanation; onUse: Props['onUse'] }) {
  const fits = (explanation.gangs ?? []).flatMap((g) => g.suggestions ?? []).flatMap((s) => {
    const change = changesOf(s);
    return change ? [{ message: s.message, change }] : [];
  });
  if (fits.length === 0) return null;
  return (
    <ul className={css.fits} aria-label={text.fits}>
      {fits.slice(0, mostFits).map((f) => (
        <Fit key={f.message} says={sentence(f.message)} onUse={() => onUse(f.change)} />
      ))}
    </ul>
  );
}

function Fit({ says, onUse }: { says: string; onUse: () => void }) {
  const id = useId();
  return (
    <li>
      <span id={id}>{says}</span>
      <Button size="compact-sm" variant="default" aria-describedby={id} onClick={onUse}>
        {text.use}
      </Button>
    </li>
  );
}

function Where({ explanation }: { explanation: Explanation }) {
  const nodes = [...new Set((explanation.places ?? []).flatMap((p) => (p.tasks ?? []).map((t) => t.node)))];
  const out = explanation.preempts ?? [];
  return (
    <>
      {nodes.length > 0 && (
        <p>
          <span className="muted">{text.where}</span> {nodes.join(', ')}
        </p>
      )}
      {out.length > 0 && (
        <p>
          <span className="muted">{text.preempts}</span> {out.map((d) => d.name || String(d.job)).join(', ')}
        </p>
      )}
    </>
  );
}
