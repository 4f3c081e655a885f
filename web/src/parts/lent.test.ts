import { expect, test } from 'vitest';
import type { Cell } from '../api/wire';
import { loansOf } from './lent';

const leaf = (address: string, more: Partial<Cell>): Cell => ({ type: 'GPU', address, level: 1, state: 'Used', healthy: true, priority: -1, vc: 'a', node: 'n', ...more });

test('what is lent, and to which virtual cluster', () => {
  const cells = [leaf('0', { job: 1 }), leaf('1', { job: 2 }), leaf('2', { job: 2 }), leaf('3', { job: 3 }), leaf('4', { job: 4, priority: 10 }), leaf('5', { job: 1, vc: 'b' }), leaf('6', { state: 'Free' })];
  const names = [1, 2, 4].map((id) => ({ id, name: `j${id}`, user: 'u', ref: `u~j${id}`, vc: id === 1 ? 'b' : 'c' }));
  const list = { seq: 0, cells: [{ ...leaf('node', { children: cells }) }], names };
  expect(loansOf(list, 'a')).toEqual([
    { to: 'c', gpus: 2, jobs: [{ id: 2, ref: 'u~j2' }] },
    { to: 'b', gpus: 1, jobs: [{ id: 1, ref: 'u~j1' }] },
    { to: '', gpus: 1, jobs: [] },
  ]);
  expect(loansOf(list, 'none')).toEqual([]);
});
