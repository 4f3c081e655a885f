import type { Job } from '../../api/wire';
import { text } from '../../text/job';
import { Fact, Section } from '../../ui/Page';
import css from './job.module.css';

// Outcome is how a job ended, and what to do.
export function Outcome({ job }: { job: Job }) {
  const words = [job.message, job.exit?.message].filter((w, i, all) => w && !all.some((other, j) => j !== i && other?.includes(w) && (other !== w || j < i)));
  const kind = job.exit_class;
  if (words.length === 0 && !kind) return null;
  return (
    <Section title={text.outcome}>
      <div className={css.outcome} data-phase={job.phase}>
        {words.map((w) => (
          <p key={w}>{w}</p>
        ))}
        {kind && <Fact name={text.class}>{`${kind.class}: ${kind.means}`}</Fact>}
        {kind && <Fact name={text.nextStep}>{`${kind.actor}: ${kind.next}`}</Fact>}
      </div>
    </Section>
  );
}
