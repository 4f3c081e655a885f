import type { Job, Task } from '../api/wire';
import { sentence } from '../format/sentence';
import { exit as of, text as ofJob } from '../text/job';
import { text } from '../text/jobs';

type Reason = NonNullable<Job['reason']>;

// What a job with these reasons waits for is cells: what is free comes first. Of the others the server's sentence is the point: of
// NotLent, too, for which enough cells are free.
const ofCells = ['VCBusy', 'ClusterBusy', 'Fragmented', 'PriorityAhead'];

// whyOf is the server's sentence, of a job that is held without the command that releases it: here that is a button.
export function whyOf(reason: Reason): string {
  return reason.code === 'OnHold' ? reason.message.replace(/; comb job release [^;()]*$/, '') : reason.message;
}

// pointOf is why a job waits in a few words. The numbers are the server's; how many GPUs it asks for stands beside.
export function pointOf(job: Job, reason: Reason): string {
  const rooms = reason.rooms ?? [];
  if (!ofCells.includes(reason.code) || rooms.length === 0) return sentence(whyOf(reason), job.vc);
  const free = rooms.map((r) => {
    const gpus = r.gpu > 0 && !r.part;
    const each = gpus ? r.gpu : 1;
    return text.freeOf(r.free * each, r.total * each, rooms.length === 1 && gpus ? text.gpus : r.sku);
  });
  const where = job.priority < 0 ? text.cluster : job.vc;
  if (reason.code === 'PriorityAhead') return text.ahead(where, free.join(', '));
  return reason.code === 'Fragmented' ? text.apart(where, free.join(', ')) : text.point(where, free.join(', '));
}

// endOf is how a job ended, in a few words: of one that failed what its program said last comes first, which tells it from others.
export function endOf(job: Job): string {
  const e = job.exit;
  if (job.phase !== 'Failed' || job.cause !== 'failed' || !e || e.cause) return sentence(job.message ?? '', job.vc);
  const how = e.signal ? of.signal(e.signal) : of.exitCode(e.code);
  return sentence(e.message ? `${e.message} (${how})` : how);
}

// taskEnd is how a task ended, in a few words. One that was never started has no exit code.
export function taskEnd(t: Pick<Task, 'exit' | 'exit_class'>): string {
  const e = t.exit;
  if (!e) return '–';
  const how = e.signal ? ofJob.signal(e.signal) : e.cause === 'never started' && e.code === 0 ? '' : ofJob.exitCode(e.code);
  return [t.exit_class?.class, how, e.cause, e.message].filter(Boolean).join(', ');
}

interface Named {
  name: string;
  user?: string;
}

// refOf is what a job is called: for its own user by its name, for others with its user before it, as the server calls it. Of one
// that its reader may not see it is "".
export function refOf(job: Named, reader: string): string {
  return job.name === '' || !job.user || job.user === reader ? job.name : `${job.user}~${job.name}`;
}
