import { Button } from '@mantine/core';
import { Failure } from '../api/client';
import { told } from '../format/sentence';
import { text } from '../text/common';
import css from './ui.module.css';

function titleOf(error: Error, acting: boolean): string {
  if (error instanceof Wrong) return text.wrong;
  if (!(error instanceof Failure)) return text.broken;
  switch (error.status) {
    case 0:
      return text.noAnswer;
    case 403:
      return acting ? text.mayNot : text.noRight;
    case 404:
      return text.notFound;
    default:
      return acting ? text.notDone : text.failedToLoad;
  }
}

// Wrong is what the portal itself has found wrong in what was typed or chosen.
export class Wrong extends Error {}

interface Props {
  error: Error;
  onRetry?: () => void;
  of?: 'reading' | 'acting'; // what went wrong; reading if not said
}

// Failed is the one way to show that something went wrong where it was to be seen.
export function Failed({ error, onRetry, of = 'reading' }: Props) {
  return (
    <div role="alert" className={css.failed}>
      <strong>{titleOf(error, of === 'acting')}</strong>
      {error.message !== text.noAnswerWhy && <Mistakes error={error} />}
      {onRetry && (
        <div>
          <Button size="xs" variant="default" onClick={onRetry}>
            {text.again}
          </Button>
        </div>
      )}
    </div>
  );
}

// Mistakes lists what the server found wrong, each with its place.
export function Mistakes({ error }: { error: Error }) {
  const errors = error instanceof Failure ? (error.problem?.errors ?? []) : [];
  if (errors.length === 0) return <p>{error.message}</p>;
  return (
    <ul className={css.mistakes}>
      {errors.map((e) => (
        <li key={`${e.line ?? 0} ${e.column ?? 0} ${e.pointer ?? ''} ${e.detail}`}>
          {e.line ? <span className="muted">{text.place(e.line, e.column ?? 1)}: </span> : null}
          {e.pointer && <><code>{e.pointer}</code>: </>}{told(e.detail)}
        </li>
      ))}
    </ul>
  );
}
