import type { Problem } from './wire';

// Failure is every way in which a call can go wrong. Status 0 is a server that does not answer.
export class Failure extends Error {
  readonly status: number;
  readonly problem: Problem | undefined;

  constructor(status: number, detail: string, problem?: Problem) {
    super(detail);
    this.status = status;
    this.problem = problem;
  }
}

export interface Options {
  body?: unknown; // sent as JSON
  yaml?: string; // sent as it is
  key?: string; // idempotency key: the same key is the same command
  match?: string; // If-Match
  signal?: AbortSignal;
}

async function failureOf(r: Response): Promise<Failure> {
  if (r.headers.get('Content-Type')?.startsWith('application/problem+json')) {
    const problem: Problem = await r.json();
    return new Failure(r.status, problem.detail, problem);
  }
  return new Failure(r.status, `${r.status} ${r.statusText}`);
}

// request makes a call and gives the answer, whatever its type; it throws a Failure.
export async function request(method: string, path: string, o: Options = {}): Promise<Response> {
  const headers = new Headers();
  if (o.yaml !== undefined) headers.set('Content-Type', 'application/yaml');
  else if (o.body !== undefined) headers.set('Content-Type', 'application/json');
  if (o.key !== undefined) headers.set('Idempotency-Key', o.key);
  if (o.match !== undefined) headers.set('If-Match', o.match);
  const init: RequestInit = { method, headers };
  if (o.yaml !== undefined) init.body = o.yaml;
  else if (o.body !== undefined) init.body = JSON.stringify(o.body);
  if (o.signal) init.signal = o.signal;
  let r: Response;
  try {
    r = await fetch(`/api/v1${path}`, init);
  } catch (e) {
    if (o.signal?.aborted) throw e;
    throw new Failure(0, 'The server does not answer.');
  }
  if (!r.ok) throw await failureOf(r);
  return r;
}

// call makes a call whose answer is JSON of the type that its route has.
export async function call<T>(method: string, path: string, o: Options = {}): Promise<T> {
  const r = await request(method, path, o);
  const data: T = await r.json();
  return data;
}

// send makes a call whose answer has nothing.
export async function send(method: string, path: string, o: Options = {}): Promise<void> {
  await request(method, path, o);
}

// newKey makes an idempotency key; it lives as long as the form or dialog that it is made with.
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
}

// part writes a path's segment.
export function part(name: string): string {
  return encodeURIComponent(name);
}
