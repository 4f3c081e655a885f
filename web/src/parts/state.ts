import type { Job, Task } from '../api/wire';

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

// waited is how long a job waited, or has, in all its waits: the time in which it did not run. Of one that ended before the server
// measured that, it is the time to its first start.
export function waited(job: Job, now: number): number {
  if (job.phase === 'Waiting') return now - job.submitted - (job.ran ?? 0);
  return job.waited ?? (job.started ?? job.ended ?? now) - job.submitted;
}

// firstFailed is the task of a failed job at whose log its reader begins: the one that failed first. Those that were stopped since
// another had failed did not end by themselves.
export function firstFailed(job: Job): Task | undefined {
  if (job.phase !== 'Failed') return undefined;
  const failed = (job.tasks ?? []).filter((t) => t.attempt > 0 && t.state === 'Failed');
  const when = (t: Task) => t.exit?.at ?? Infinity;
  return failed.sort((a, b) => Number(b.exit?.own ?? false) - Number(a.exit?.own ?? false) || when(a) - when(b))[0];
}
