import { expect, test } from 'vitest';
import type { Job } from '../api/wire';
import { endOf, pointOf, refOf, taskEnd } from './point';

const base: Job = { id: 1, ref: 'a', name: 'a', user: 'u', vc: 'vision', priority: 10, phase: 'Waiting', submitted: 100, leaves: 1, gpus: 1, retry: 0, counted: 0, preempted: 0, tasks: [], attempts: [] };
const room = (sku: string, free: number, total: number) => ({ sku, device: 'nvidia', gpu: 1, free, total });
const reason = { code: 'VCBusy', message: 'a gang needs 8 GPUs; in use by b', need: 8, free: 7, total: 8, asks: '8 GPUs', rooms: [room('A100', 7, 8)] };

test('why a job waits begins with what is free', () => {
  expect(pointOf(base, reason)).toBe('vision: 7 of 8 GPUs free');
  expect(pointOf(base, { ...reason, rooms: [room('A100', 0, 8), room('V100', 2, 4)] })).toBe('vision: 0 of 8 A100, 2 of 4 V100 free');
  expect(pointOf({ ...base, priority: -1 }, { ...reason, code: 'ClusterBusy' })).toBe('cluster: 7 of 8 GPUs free');
  expect(pointOf(base, { ...reason, code: 'Fragmented', need: 4, rooms: [room('A100', 5, 12)] })).toBe('vision: 5 of 12 GPUs free, not in one place');
  expect(pointOf(base, { ...reason, code: 'PriorityAhead' })).toBe('vision: other jobs first (7 of 8 GPUs free)');
  expect(pointOf(base, { ...reason, rooms: [{ ...room('BOX', 1, 2), gpu: 4 }] })).toBe('vision: 4 of 8 GPUs free');
  expect(pointOf(base, { ...reason, rooms: [{ ...room('CPU', 1, 2), gpu: 0 }], asks: '' })).toBe('vision: 1 of 2 CPU free');
});

test('of other reasons the server’s sentence is the point', () => {
  expect(pointOf(base, { ...reason, code: 'OnHold', message: 'held by u' })).toBe('Held by u');
  expect(pointOf({ ...base, priority: -1 }, { ...reason, code: 'NotLent', message: 'it would fit, but virtual cluster b lends nothing' })).toBe('It would fit, but virtual cluster b lends nothing');
  expect(pointOf(base, { ...reason, rooms: null })).toBe('A gang needs 8 GPUs; in use by b');
});

test('how a job failed begins with what its program said, which tells it from others', () => {
  const failed: Job = { ...base, phase: 'Failed', cause: 'failed', message: 'task main-0 failed with exit code 1: ZeroDivisionError: division by zero' };
  expect(endOf({ ...failed, exit: { code: 1, message: 'ZeroDivisionError: division by zero' } })).toBe('ZeroDivisionError: division by zero (exit code 1)');
  expect(endOf({ ...failed, exit: { code: 3 } })).toBe('Exit code 3');
  expect(endOf({ ...failed, exit: { code: 0, signal: 9, message: 'loading' } })).toBe('Loading (signal 9)');
  expect(endOf({ ...failed, exit: { code: 137, cause: 'out of memory' }, message: 'task main-0 ended: out of memory' })).toBe('Task main-0 ended: out of memory');
  expect(endOf({ ...failed, cause: 'time limit', message: 'it ran longer than its time limit of 900 s' })).toBe('It ran longer than its time limit of 15 min');
  expect(endOf({ ...base, phase: 'Stopped' })).toBe('');
});

test('a job is called by its name for its own user, for others with its user before it', () => {
  expect(refOf({ name: 'eval', user: 'bob' }, 'alice')).toBe('bob~eval');
  expect(refOf({ name: 'eval', user: 'bob' }, 'bob')).toBe('eval');
  expect(refOf({ name: 'eval' }, 'bob')).toBe('eval');
  expect(refOf({ name: '', user: 'bob' }, 'alice')).toBe('');
});

test('how a task ended: one that never started has no exit code', () => {
  expect(taskEnd({})).toBe('–');
  expect(taskEnd({ exit: { code: 3 } })).toBe('code 3');
  expect(taskEnd({ exit: { code: 0, signal: 9, cause: 'node lost' } })).toBe('signal 9, node lost');
  expect(taskEnd({ exit: { code: 0, cause: 'never started', message: 'its quota is full' } })).toBe('never started, its quota is full');
});
