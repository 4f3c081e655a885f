import { text } from '../text/states';

// Look is how a state appears: a colour of tokens.css, a shape and a letter, since colour alone says nothing to many.
export interface Look {
  word: string;
  tone: Tone;
  letter: string;
}

export type Tone = 'waiting' | 'running' | 'suspended' | 'succeeded' | 'failed' | 'stopped' | 'starting' | 'stopping' | 'unknown';

// Shapes are drawn on a grid of 12 by 12.
export const shapes: Record<Tone, string> = {
  waiting: 'M6 1a5 5 0 1 0 0 10A5 5 0 0 0 6 1zm0 1.4a3.6 3.6 0 1 1 0 7.2 3.6 3.6 0 0 1 0-7.2zM5.4 3.4h1.3v2.4l1.6 1.1-.7 1.1-2.2-1.5z',
  running: 'M2.5 1.2 10.6 6l-8.1 4.8z',
  suspended: 'M2.5 1.5h2.5v9H2.5zM7 1.5h2.5v9H7z',
  succeeded: 'M1.2 6.4 2.5 5l2.3 2.3 4.7-5.2 1.4 1.3-6 6.8z',
  failed: 'M2.4 1.2 6 4.7l3.6-3.5 1.2 1.2L7.3 6l3.5 3.6-1.2 1.2L6 7.3l-3.6 3.5-1.2-1.2L4.7 6 1.2 2.4z',
  stopped: 'M2 2h8v8H2z',
  starting: 'M6 .6a5.4 5.4 0 1 0 5.4 5.4h-1.3A4.1 4.1 0 1 1 6 1.9zM4.6 3.6 8.6 6l-4 2.4z',
  stopping: 'M6 .6a5.4 5.4 0 1 0 5.4 5.4h-1.3A4.1 4.1 0 1 1 6 1.9zM4.3 4.3h3.4v3.4H4.3z',
  unknown: 'M3.2 3.7C3.2 2 4.4 1 6.1 1s2.8 1 2.8 2.5c0 1.200-.7 1.800-1.400 2.300-.6.4-.7.7-.7 1.300H5.300c0-1.200.3-1.700 1.100-2.300.6-.4.8-.7.8-1.200 0-.7-.4-1.100-1.100-1.100s-1.200.5-1.200 1.200zM5.200 8.500h1.800v1.900H5.200z',
};

export const colours: Record<Tone, string> = {
  waiting: 'var(--waiting)',
  running: 'var(--running)',
  suspended: 'var(--suspended)',
  succeeded: 'var(--succeeded)',
  failed: 'var(--failed)',
  stopped: 'var(--stopped)',
  starting: 'var(--running)',
  stopping: 'var(--stopped)',
  unknown: 'var(--stopped)',
};

const looks: Record<string, Look> = {
  Waiting: { word: text.waiting, tone: 'waiting', letter: 'W' },
  Active: { word: text.running, tone: 'running', letter: 'R' },
  Running: { word: text.running, tone: 'running', letter: 'R' },
  Reserving: { word: text.reserving, tone: 'waiting', letter: 'W' },
  Starting: { word: text.starting, tone: 'starting', letter: 'R' },
  Suspended: { word: text.suspended, tone: 'suspended', letter: 'P' },
  Stopping: { word: text.stopping, tone: 'stopping', letter: 'T' },
  Succeeded: { word: text.succeeded, tone: 'succeeded', letter: 'S' },
  Failed: { word: text.failed, tone: 'failed', letter: 'F' },
  Stopped: { word: text.stopped, tone: 'stopped', letter: 'T' },
  Ended: { word: text.ended, tone: 'stopped', letter: 'T' },
  Unknown: { word: text.unknown, tone: 'unknown', letter: '?' },
  Up: { word: text.up, tone: 'succeeded', letter: 'S' },
  Down: { word: text.down, tone: 'failed', letter: 'F' },
  Cordoned: { word: text.cordoned, tone: 'stopped', letter: 'T' },
  Draining: { word: text.draining, tone: 'stopping', letter: 'T' },
  Dead: { word: text.dead, tone: 'failed', letter: 'F' },
  Held: { word: text.held, tone: 'suspended', letter: 'P' },
  HeldByOthers: { word: text.heldByOthers, tone: 'stopped', letter: 'T' },
  Suspect: { word: text.suspect, tone: 'unknown', letter: '?' },
  Blocked: { word: text.blocked, tone: 'stopped', letter: 'T' },
};

// lookOf gives a state's look; one that this portal does not know yet is shown by its own name.
export function lookOf(state: string): Look {
  return looks[state] ?? { word: state, tone: 'unknown', letter: '?' };
}
