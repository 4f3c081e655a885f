import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import { call, part, request } from './client';
import type { EventList, Explanation, Job, JobHistory, JobList, Submitted, UploadList, Validated } from './wire';

export interface JobFilter {
  state: string[];
  vc: string[];
  user: string[];
  name: string;
  tag: string;
  cursor: string;
  limit: number;
}

export const anyJob: JobFilter = { state: [], vc: [], user: [], name: '', tag: '', cursor: '', limit: 100 };

function queryOf(f: JobFilter): string {
  const q = new URLSearchParams();
  for (const s of f.state) q.append('state', s);
  for (const v of f.vc) q.append('vc', v);
  for (const u of f.user) q.append('user', u);
  if (f.name) q.set('name', f.name);
  if (f.tag) q.set('tag', f.tag);
  if (f.cursor) q.set('cursor', f.cursor);
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

// Whom a job waits for may be others' jobs, whose events its reader does not get: so it is asked for again by time, too.
export function explainQuery(ref: string) {
  return queryOptions({
    queryKey: ['explain', ref],
    queryFn: ({ signal }) => call<Explanation>('GET', `/jobs/${part(ref)}/explain`, { signal }),
    refetchInterval: 10_000,
  });
}

export function historyQuery(ref: string) {
  return queryOptions({ queryKey: ['history', ref], queryFn: ({ signal }) => call<JobHistory>('GET', `/jobs/${part(ref)}/history`, { signal }) });
}

export function eventsQuery(ref: string) {
  return queryOptions({
    queryKey: ['events', ref],
    queryFn: ({ signal }) => call<EventList>('GET', `/jobs/${part(ref)}/events`, { signal }),
  });
}

export function configOfJobQuery(ref: string) {
  return queryOptions({
    queryKey: ['job file', ref],
    queryFn: async ({ signal }) => (await request('GET', `/jobs/${part(ref)}/config`, { signal })).text(),
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
  stream: string;
  attempt: number; // 0 is the latest
}

// openLog opens a task's log from an offset on, or from its last lines; with follow the answer goes on while the task prints.
export async function openLog(p: LogPlace, from: { offset: number } | { tail: number }, signal: AbortSignal, follow = true): Promise<Response> {
  const q = new URLSearchParams({ stream: p.stream, follow: String(follow) });
  if (p.attempt > 0) q.set('attempt', String(p.attempt));
  if ('tail' in from) q.set('tail', String(from.tail));
  else q.set('offset', String(from.offset));
  return request('GET', `/jobs/${part(p.ref)}/tasks/${part(p.role)}/${p.index}/logs?${q.toString()}`, { signal });
}
