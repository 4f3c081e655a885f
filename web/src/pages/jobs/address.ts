import { useNavigate, useSearch } from '@tanstack/react-router';
import { anyJob, type JobFilter } from '../../api/jobs';

// The filters of the list are its address: it can be kept, sent and gone back to.
export interface JobsAddress {
  state?: string;
  vc?: string;
  user?: string;
  name?: string;
  tag?: string;
  sort?: string;
  cursor?: string;
}

export function useAddress() {
  const search: JobsAddress = useSearch({ strict: false });
  const navigate = useNavigate();
  const address: JobsAddress = {};
  for (const k of ['state', 'vc', 'user', 'name', 'tag', 'sort', 'cursor'] as const) {
    const v = search[k];
    if (v) address[k] = v;
  }
  return { address, go: (next: JobsAddress) => void navigate({ to: '/jobs', search: { ...next }, replace: next.cursor === address.cursor }) };
}

const list = (text: string | undefined) => (text ? [text] : []);

const ofAll = ['name', 'vc', 'user', 'submitted'];
const ofLive = [...ofAll, 'gpus'];

// serverSort is the order that the server keeps over all pages, "" where it has none: what changes with time, such as for how long a
// job waited, is an order of the page that is shown. GPUs are one of jobs that have not ended.
export function serverSort(a: JobsAddress): string {
  const live = a.state === 'Waiting' || a.state === 'Active';
  return (live ? ofLive : ofAll).includes(a.sort?.replace('-', '') ?? '') ? (a.sort ?? '') : '';
}

export function filterOf(a: JobsAddress): JobFilter {
  return { ...anyJob, state: list(a.state), vc: list(a.vc), user: list(a.user), name: a.name ?? '', tag: a.tag ?? '', cursor: a.cursor ?? '', sort: serverSort(a) };
}
