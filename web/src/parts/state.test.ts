import { expect, test } from 'vitest';
import type { Job } from '../api/wire';
import { firstFailed, waited } from './state';

const base: Job = { id: 1, ref: 'a', name: 'a', user: 'u', vc: 'v', priority: 0, phase: 'Waiting', submitted: 100, leaves: 1, gpus: 1, retry: 0, counted: 0, preempted: 0, tasks: [], attempts: [] };

test('how long a job waited', () => {
  expect(waited(base, 150)).toBe(50);
  expect(waited({ ...base, phase: 'Active', started: 130 }, 500)).toBe(30);
  expect(waited({ ...base, phase: 'Stopped', ended: 140 }, 500)).toBe(40);
  // All waits count, as on the command line: one that ran, waited again and runs has two.
  expect(waited({ ...base, phase: 'Active', started: 130, ran: 8, preempted: 1, waited: 362 }, 500)).toBe(362);
  expect(waited({ ...base, phase: 'Succeeded', started: 130, ended: 400, ran: 70, waited: 230 }, 500)).toBe(230);
  // One that was preempted waits again: the time in which it ran does not count, the time since does.
  expect(waited({ ...base, phase: 'Waiting', started: 102, ran: 8, preempted: 1 }, 500)).toBe(392);
});

test('a failed job begins at the task that failed first, by itself', () => {
  const task = (index: number, state: string, at: number, own: boolean) => ({ role: 'w', index, gang: 0, attempt: 1, state, exit: { code: 1, at, own } });
  const tasks = [task(0, 'Ended', 5, false), task(1, 'Failed', 30, true), task(2, 'Failed', 20, true), task(3, 'Failed', 10, false)];
  expect(firstFailed({ ...base, phase: 'Failed', tasks })?.index).toBe(2);
  expect(firstFailed({ ...base, phase: 'Stopped', tasks })).toBeUndefined();
  expect(firstFailed({ ...base, phase: 'Failed', tasks: [{ ...task(0, 'Failed', 0, false), attempt: 0 }] })).toBeUndefined();
});
