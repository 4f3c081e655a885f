import type { Job } from '../api/wire';
import { sentence } from '../format/sentence';
import { text } from '../text/jobs';

type Reason = NonNullable<Job['reason']>;

// What a job with these reasons waits for is cells: what is free comes first. Of the others the server's sentence is the point: of
// NotLent, too, for which enough cells are free.
const ofCells = ['VCBusy', 'ClusterBusy', 'Fragmented', 'PriorityAhead'];

// pointOf is why a job waits in a few words. The numbers are the server's; how many GPUs it asks for stands beside.
export function pointOf(job: Job, reason: Reason): string {
  const rooms = reason.rooms ?? [];
  if (!ofCells.includes(reason.code) || rooms.length === 0) return sentence(reason.message);
  const free = rooms.map((r) => {
    const gpus = r.gpu > 0 && !r.part;
    const each = gpus ? r.gpu : 1;
    return text.freeOf(r.free * each, r.total * each, rooms.length === 1 && gpus ? text.gpus : r.sku);
  });
  const where = job.priority < 0 ? text.cluster : job.vc;
  if (reason.code === 'PriorityAhead') return text.ahead(where, free.join(', '));
  return reason.code === 'Fragmented' ? text.apart(where, free.join(', ')) : text.point(where, free.join(', '));
}
