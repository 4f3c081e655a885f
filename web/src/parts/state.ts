import type { Job } from '../api/wire';

const ended = ['Succeeded', 'Failed', 'Stopped'];

export function hasEnded(job: Job): boolean {
  return ended.includes(job.phase);
}

// stateOf is the state that a person asks for: of a job that runs, that of its attempts.
export function stateOf(job: Job): string {
  if (hasEnded(job)) return job.phase;
  if (job.stopping) return 'Stopping';
  if (job.phase !== 'Active') return job.held ? 'Held' : job.phase;
  const live = (job.attempts ?? []).filter((a) => a.state !== 'Ended').map((a) => a.state);
  for (const s of ['Running', 'Starting', 'Unknown', 'Suspended', 'Stopping']) if (live.includes(s)) return s;
  return job.phase;
}

// waited is how long a job waited, or has: from its submission to its first start, and when it waits again, for as long as it
// did not run.
export function waited(job: Job, now: number): number {
  if (job.phase === 'Waiting') return now - job.submitted - (job.ran ?? 0);
  return (job.started ?? job.ended ?? now) - job.submitted;
}
