import { expect, test } from 'vitest';
import type { Job } from '../api/wire';
import { waited } from './state';

const base: Job = { id: 1, ref: 'a', name: 'a', user: 'u', vc: 'v', priority: 0, phase: 'Waiting', submitted: 100, leaves: 1, gpus: 1, retry: 0, counted: 0, preempted: 0, tasks: [], attempts: [] };

test('how long a job waited', () => {
  expect(waited(base, 150)).toBe(50);
  expect(waited({ ...base, phase: 'Active', started: 130 }, 500)).toBe(30);
  expect(waited({ ...base, phase: 'Stopped', ended: 140 }, 500)).toBe(40);
  // One that was preempted waits again: the time in which it ran does not count, the time since does.
  expect(waited({ ...base, phase: 'Waiting', started: 102, ran: 8, preempted: 1 }, 500)).toBe(392);
});
