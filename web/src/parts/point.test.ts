import { expect, test } from 'vitest';
import type { Job } from '../api/wire';
import { pointOf } from './point';

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
