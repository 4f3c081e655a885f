import type { Job } from '../../api/wire';
import { sentence } from '../../format/sentence';
import { text } from '../../text/job';
import { Fact, Section } from '../../ui/Page';
import css from './job.module.css';

// readsLog begins what to do where that is to read the log.
const readsLog = 'read its log';

// Outcome is how a job ended, and what to do: not to read the log where that stands below.
export function Outcome({ job, aboveLog = false }: { job: Job; aboveLog?: boolean }) {
  const words = [job.message, job.exit?.message].filter((w, i, all) => w && !all.some((other, j) => j !== i && other?.includes(w) && (other !== w || j < i)));
  const kind = job.exit_class;
  if (words.length === 0 && !kind) return null;
  return (
    <Section title={text.outcome}>
      <div className={css.outcome} data-phase={job.phase}>
        {words.map((w) => (
          <p key={w}>{sentence(w ?? '', job.vc)}</p>
        ))}
        {kind && <Fact name={text.class}>{`${kind.class}: ${kind.means}`}</Fact>}
        {kind && !(aboveLog && kind.next.startsWith(readsLog)) && <Fact name={text.nextStep}>{`${kind.actor}: ${kind.next}`}</Fact>}
      </div>
    </Section>
  );
}
