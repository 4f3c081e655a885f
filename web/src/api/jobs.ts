import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import { call, part, request, textOf } from './client';
import type { Event, EventList, Explanation, Job, JobHistory, JobList, Starts, Submitted, UploadList, Validated } from './wire';

export interface JobFilter {
  state: string[];
  vc: string[];
  user: string[];
  name: string;
  tag: string;
  cursor: string;
  sort: string; // another order than the newest first, over all pages; left and place are of those that have not ended
  limit: number;
}

export const anyJob: JobFilter = { state: [], vc: [], user: [], name: '', tag: '', cursor: '', sort: '', limit: 100 };

function queryOf(f: JobFilter): string {
  const q = new URLSearchParams();
  for (const s of f.state) q.append('state', s);
  for (const v of f.vc) q.append('vc', v);
  for (const u of f.user) q.append('user', u);
  if (f.name) q.set('name', f.name);
  if (f.tag) q.set('tag', f.tag);
  if (f.cursor) q.set('cursor', f.cursor);
  if (f.sort) q.set('sort', f.sort);
  q.set('limit', String(f.limit));
  return q.toString();
}

export function jobsQuery(f: JobFilter) {
  return queryOptions({
    queryKey: ['jobs', f],
    queryFn: ({ signal }) => call<JobList>('GET', `/jobs?${queryOf(f)}`, { signal }),
    placeholderData: keepPreviousData,
  });
}

export function jobQuery(ref: string) {
  return queryOptions({ queryKey: ['job', ref], queryFn: ({ signal }) => call<Job>('GET', `/jobs/${part(ref)}`, { signal }) });
}

// When jobs that wait start is worked out once for all that ask, and each 10 s at most: it is asked for again beside events, not with each.
export function startsQuery(jobs: number[]) {
  const most = jobs.slice(0, 400);
  return queryOptions({
    queryKey: ['starts', most],
    queryFn: async ({ signal }) => {
      const q = new URLSearchParams(most.map((id) => ['job', String(id)]));
      const { starts } = await call<Starts>('GET', `/starts?${q.toString()}`, { signal });
      return new Map((starts ?? []).map((s) => [s.job, s]));
    },
    enabled: most.length > 0,
    refetchInterval: 15_000,
    placeholderData: keepPreviousData,
  });
}

export function explainQuery(ref: string) {
  return queryOptions({
    queryKey: ['explain', ref],
    queryFn: ({ signal }) => call<Explanation>('GET', `/jobs/${part(ref)}/explain`, { signal }),
  });
}

// A job's history is made of all its events: it is read when an attempt has begun or changed (seen is those that the job has),
// and not at each event. The server tells one at a time to a user.
export function historyQuery(ref: string, seen: string) {
  return queryOptions({
    queryKey: ['history', ref, seen],
    queryFn: ({ signal }) => call<JobHistory>('GET', `/jobs/${part(ref)}/history`, { signal }),
    placeholderData: keepPreviousData,
  });
}

const keptEvents = 5000;

export interface Events {
  events: Event[]; // the last ones, without each step of progress
  last: number; // the last one that was read
  left: number; // that are not kept
}

// eventsQuery reads a job's events to their end, and afterwards those alone that came since.
export function eventsQuery(ref: string) {
  return queryOptions({
    queryKey: ['events', ref],
    queryFn: async ({ signal, client, queryKey }): Promise<Events> => {
      let have: Events = client.getQueryData<Events>(queryKey) ?? { events: [], last: 0, left: 0 };
      for (let more = true; more; ) {
        const page = await call<EventList>('GET', `/jobs/${part(ref)}/events?after=${have.last}`, { signal });
        have = withPage(have, page);
        more = !!page.next;
      }
      return have;
    },
    structuralSharing: false,
  });
}

// withPage adds a page of events. Of the steps of progress the last of a row is kept: there may be one a second.
export function withPage(have: Events, page: EventList): Events {
  const all = [...have.events];
  for (const e of page.events ?? []) {
    if (e.kind === 'Progress' && all.at(-1)?.kind === 'Progress') all.pop();
    all.push(e);
  }
  const gone = Math.max(0, all.length - keptEvents);
  return { events: all.slice(gone), last: page.next || (page.events?.at(-1)?.seq ?? have.last), left: have.left + gone };
}

export function configOfJobQuery(ref: string) {
  return queryOptions({
    queryKey: ['job file', ref],
    queryFn: ({ signal }) => textOf('GET', `/jobs/${part(ref)}/config`, { signal }),
  });
}

export function submitJob(yaml: string, key: string): Promise<Submitted> {
  return call('POST', '/jobs', { yaml, key });
}

export function validateJob(yaml: string, signal: AbortSignal): Promise<Validated> {
  return call('POST', '/jobs:validate', { yaml, signal });
}

export const uploadsQuery = queryOptions({ queryKey: ['uploads'], queryFn: ({ signal }) => call<UploadList>('GET', '/uploads', { signal }), staleTime: 0 });

// sendUpload sends a folder with code; one that the server has is answered at once.
export function sendUpload(digest: string, archive: Blob): Promise<unknown> {
  return call('PUT', `/uploads/${digest}`, { blob: archive });
}

export function stopJob(ref: string, key: string): Promise<unknown> {
  return call('POST', `/jobs/${part(ref)}/stop`, { body: {}, key });
}

export function holdJob(ref: string, reason: string, key: string): Promise<unknown> {
  return call('POST', `/jobs/${part(ref)}/hold`, { body: { reason }, key });
}

export function releaseJob(ref: string, key: string): Promise<unknown> {
  return call('POST', `/jobs/${part(ref)}/release`, { body: {}, key });
}

export function requeueJob(ref: string, reason: string, key: string): Promise<unknown> {
  return call('POST', `/jobs/${part(ref)}/requeue`, { body: { reason }, key });
}

export function updateJob(ref: string, priority: number, key: string): Promise<unknown> {
  return call('POST', `/jobs/${part(ref)}/update`, { body: { priority }, key });
}

export interface LogPlace {
  ref: string;
  role: string;
  index: number;
  stream: string; // stdout, stderr or both
  attempt: number; // 0 is the latest
}

function logPath(p: LogPlace): string {
  return `/jobs/${part(p.ref)}/tasks/${part(p.role)}/${p.index}/logs`;
}

// logFile is where a browser gets a whole log as a file.
export function logFile(p: LogPlace): string {
  return `/api/v1${logPath(p)}?${new URLSearchParams({ stream: p.stream, attempt: String(p.attempt) }).toString()}`;
}

// logsFile is where a browser gets the logs of all tasks, as one archive.
export function logsFile(ref: string): string {
  return `/api/v1/jobs/${part(ref)}/logs`;
}

// openLog opens a task's log from an offset on, of both streams from one of each, or from its last lines; with follow the answer goes
// on while the task prints.
export async function openLog(p: LogPlace, from: { offset: number; errors?: number } | { tail: number }, signal: AbortSignal, follow = true): Promise<Response> {
  const q = new URLSearchParams({ stream: p.stream, follow: String(follow) });
  if (p.attempt > 0) q.set('attempt', String(p.attempt));
  if ('tail' in from) q.set('tail', String(from.tail));
  else q.set('offset', String(from.offset));
  if (p.stream === 'both') q.set('frames', 'true');
  if ('errors' in from) q.set('errors', String(from.errors));
  return request('GET', `${logPath(p)}?${q.toString()}`, { signal });
}
