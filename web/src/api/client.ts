import { text } from '../text/common';
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
  blob?: Blob; // sent as it is, with its type
  key?: string; // idempotency key: the same key is the same command
  match?: string; // If-Match
  signal?: AbortSignal;
}

// Paths whose 401 is an answer to the one who asks: wrong password, nobody signed in yet, signed out already.
const doors = ['/me', '/sessions', '/setup', '/sign-in'];

// Door is where calls wait whose session has ended, until the same user has signed in again.
export interface Door {
  shut: (signal?: AbortSignal) => Promise<void>; // rejects when the call is given up
}

let door: Door | undefined;

export function setDoor(d: Door): void {
  door = d;
}

async function failureOf(r: Response): Promise<Failure> {
  if (r.headers.get('Content-Type')?.startsWith('application/problem+json')) {
    const problem: Problem = await r.json();
    return new Failure(r.status, problem.detail, problem);
  }
  return new Failure(r.status, `${r.status} ${r.statusText}`);
}

// request makes a call and gives the answer, whatever its type; it throws a Failure. Where the session has ended it waits
// for the next sign-in and makes the same call again.
export async function request(method: string, path: string, o: Options = {}): Promise<Response> {
  const headers = new Headers();
  if (o.yaml !== undefined) headers.set('Content-Type', 'application/yaml');
  else if (o.body !== undefined) headers.set('Content-Type', 'application/json');
  if (o.key !== undefined) headers.set('Idempotency-Key', o.key);
  if (o.match !== undefined) headers.set('If-Match', o.match);
  const init: RequestInit = { method, headers };
  if (o.blob !== undefined) init.body = o.blob;
  if (o.yaml !== undefined) init.body = o.yaml;
  else if (o.body !== undefined) init.body = JSON.stringify(o.body);
  if (o.signal) init.signal = o.signal;
  for (;;) {
    const r = await attempt(path, init);
    if (r.ok) return r;
    if (r.status !== 401 || door === undefined || doors.includes(path)) throw await failureOf(r);
    await door.shut(o.signal);
  }
}

async function attempt(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(`/api/v1${path}`, init);
  } catch (e) {
    if (init.signal?.aborted) throw e;
    throw new Failure(0, text.noAnswerWhy);
  }
}

// call makes a call whose answer is JSON of the type that its route has.
export async function call<T>(method: string, path: string, o: Options = {}): Promise<T> {
  const r = await request(method, path, o);
  return read<T>(r.json(), o.signal);
}

// textOf makes a call whose answer is a text.
export async function textOf(method: string, path: string, o: Options = {}): Promise<string> {
  const r = await request(method, path, o);
  return read(r.text(), o.signal);
}

// read reads an answer to its end; one that breaks off is that of a server that does not answer.
async function read<T>(answer: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  try {
    return await answer;
  } catch (e) {
    if (signal?.aborted) throw e;
    throw new Failure(0, text.noAnswerWhy);
  }
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
