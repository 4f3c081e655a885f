import { useQuery } from '@tanstack/react-query';
import { infoQuery } from '../api/cluster';
import type { Job } from '../api/wire';
import { capital } from '../format/sentence';
import { stateOf } from './state';

// useHeldUp is why tasks that start may not run yet, as the server says of itself; none of a job that does not start now.
export function useHeldUp(job: Job): string[] {
  const info = useQuery(infoQuery);
  return stateOf(job) === 'Starting' ? (info.data?.conditions ?? []).map((c) => `${capital(c)}.`) : [];
}
