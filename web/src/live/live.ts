import { QueryClient } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { Failure, newKey, setDoor } from '../api/client';
import { meQuery } from '../api/people';
import { now } from '../format/time';
import { Refresher } from './refresh';
import { type Notice, Stream } from './stream';
import { type Asked, hold } from './tabs';

// Connection is how the page stands to its server.
export interface Connection {
  lost: number; // since when, in microseconds; 0 while it answers
  over: boolean; // the session has ended
}

let connection: Connection = { lost: 0, over: false };
const listeners = new Set<() => void>();

function become(next: Partial<Connection>): void {
  connection = { ...connection, ...next };
  for (const l of listeners) l();
}

export function useConnection(): Connection {
  return useSyncExternalStore(
    (l) => {
      listeners.add(l);
      return () => listeners.delete(l);
    },
    () => connection,
  );
}

// untilBack waits while the session is over.
function untilBack(signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const look = () => {
      if (connection.over && !signal?.aborted) return;
      listeners.delete(look);
      signal?.removeEventListener('abort', look);
      if (signal?.aborted) reject(signal.reason);
      else resolve();
    };
    listeners.add(look);
    signal?.addEventListener('abort', look);
    look();
  });
}

setDoor({
  shut: (signal) => {
    become({ over: true });
    return untilBack(signal);
  },
});

function again(failures: number, e: unknown): boolean {
  return failures < 3 && e instanceof Failure && (e.status === 0 || e.status === 429 || (e.status >= 502 && e.status <= 504));
}

export const cache = new QueryClient({
  defaultOptions: {
    queries: { networkMode: 'always', staleTime: Infinity, retry: again, retryDelay: 700, refetchOnWindowFocus: false },
    mutations: { networkMode: 'always' },
  },
});

// What is to be read again for an event of a kind. Most events move jobs, and with them cells, nodes and virtual clusters.
const ofJobs = ['jobs', 'job', 'explain', 'events', 'vcs', 'nodes', 'cells', 'verdict'];
const ofConfiguration = [...ofJobs, 'config', 'me'];
const quiet = new Set(['Decided', 'Notice', 'Progress']);

function keysOf(kinds: string[]): string[] {
  if (kinds.includes('Configured')) return ofConfiguration;
  return kinds.every((k) => quiet.has(k)) ? ['events', 'job'] : ofJobs;
}

const refresher = new Refresher(cache);

// What others do moves what everyone sees, but its events are for those who may see the jobs. So that is read again by
// time, too. To an administrator nothing is hidden: for that one it is what a job's progress moves, and what time moves.
const ofOthers = ['jobs', 'explain', 'vcs', 'nodes', 'cells', 'verdict', 'me', 'info'];
const ofTime = ['explain', 'verdict', 'info'];
const seldom = 10_000; // ms
let moved = false;

function look(): void {
  if (document.hidden || connection.lost > 0 || connection.over) return;
  refresher.ask(cache.getQueryData(meQuery.queryKey)?.administrator && !moved ? ofTime : ofOthers);
  moved = false;
}

function hear(n: Notice): void {
  switch (n.kind) {
    case 'events':
      moved ||= n.kinds.includes('Progress');
      refresher.ask(keysOf(n.kinds));
      return;
    case 'anew':
      void cache.invalidateQueries();
      return;
    case 'state':
      become({ lost: n.state === 'lost' ? connection.lost || now() : 0, over: connection.over || n.state === 'over' });
      if (n.state === 'live' && !heard) {
        heard = true;
        refresher.ask(ofConfiguration); // what happened between the first answers and its beginning was not told
      }
      if (n.state === 'live' && connection.over) void back();
      return;
    default:
      n satisfies never;
  }
}

// back goes on when somebody has signed in elsewhere in this browser: calls that wait are made again for the same user alone.
async function back(): Promise<void> {
  const me = await cache.fetchQuery({ ...meQuery, staleTime: 0 }).catch(() => null);
  if (me !== null) signedIn(me.name);
}

let heard = false; // the stream, by this page
let hurry = () => {};

// listen begins to hear what happens. It is called once somebody is signed in.
export function listen(): void {
  if (started) return;
  started = true;
  window.setInterval(look, seldom);
  if (typeof SharedWorker === 'undefined') {
    const stream = new Stream(hear);
    hurry = () => stream.hurry();
    return;
  }
  const worker = new SharedWorker(new URL('./worker.ts', import.meta.url), { type: 'module', name: 'comb' });
  worker.port.onmessage = (e: MessageEvent<Notice>) => hear(e.data);
  const say = (asked: Asked) => worker.port.postMessage(asked);
  hurry = () => say({ kind: 'hurry' });
  const lock = `comb-tab-${newKey()}`;
  hold(navigator.locks, lock, () => say({ kind: 'holds', lock }));
}

let started = false;

let owner = '';

// isOther reports whether a name is another than the one whose data this page holds, which is the first that it heard.
export function isOther(name: string): boolean {
  owner ||= name;
  return owner !== name;
}

// anew begins again with nothing of the one who was here before.
export function anew(): void {
  cache.clear();
  window.location.reload();
}

// signedIn reads everything again for the one who came.
export function signedIn(name: string): void {
  if (isOther(name)) return anew();
  become({ over: false });
  hurry();
  void cache.invalidateQueries();
}
