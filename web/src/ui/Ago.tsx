import { useNow } from '../format/clock';
import { when } from '../format/ago';
import { precise, stamp } from '../format/time';
import { text } from '../text/common';

// Ago is the one way to show a point in time: relative within an hour, else by the clock; in full on hover.
export function Ago({ at }: { at: number | undefined }) {
  const now = useNow();
  if (!at) return <span className="muted">{text.none}</span>;
  return (
    <time dateTime={new Date(at / 1000).toISOString()} title={precise(at)}>
      {when(at, now)}
    </time>
  );
}

// Stamp is a point in time to the second, as a list of what happened has it; another day than today is named.
export function Stamp({ at }: { at: number }) {
  const now = useNow();
  return <span title={precise(at)}>{stamp(at, now)}</span>;
}
