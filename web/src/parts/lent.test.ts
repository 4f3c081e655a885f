import { expect, test } from 'vitest';
import type { Cell, VC } from '../api/wire';
import { loansOf } from './lent';

const leaf = (address: string, more: Partial<Cell>): Cell => ({ type: 'GPU', address, level: 1, state: 'Used', healthy: true, priority: -1, vc: 'a', node: 'n', ...more });

const lends = (lent: number, more: Partial<VC> = {}) => ({ name: 'a', skus: [{ sku: 'GPU', lent }], ...more }) as VC;

test('what is lent, and to which virtual cluster', () => {
  const cells = [leaf('0', { job: 1 }), leaf('1', { job: 2 }), leaf('2', { job: 2 }), leaf('3', { job: 3 }), leaf('4', { job: 4, priority: 10 }), leaf('5', { job: 1, vc: 'b' }), leaf('6', { state: 'Free' })];
  const names = [1, 2, 4].map((id) => ({ id, name: `j${id}`, user: 'u', ref: `u~j${id}`, vc: id === 1 ? 'b' : 'c' }));
  const list = { seq: 0, cells: [{ ...leaf('node', { children: cells }) }], names };
  expect(loansOf(list, lends(4))).toEqual([
    { to: 'c', gpus: 2, jobs: [{ id: 2, ref: 'u~j2' }] },
    { to: 'b', gpus: 1, jobs: [{ id: 1, ref: 'u~j1' }] },
    { to: '', gpus: 1, jobs: [] },
  ]);
  expect(loansOf(list, lends(0))).toEqual([]);
});

test('what is bound to no virtual cluster is lent as far as the server says, and none to itself', () => {
  const free = (address: string, more: Partial<Cell>): Cell => {
    const { vc: _, ...rest } = leaf(address, more);
    return rest;
  };
  const cells = [free('0', { job: 1 }), free('1', { job: 2 }), leaf('2', { job: 2, vc: 'up' }), leaf('3', { job: 2, vc: 'b' }), free('4', { job: 2, type: 'OTHER' })];
  const names = [1, 2].map((id) => ({ id, name: `j${id}`, user: 'u', ref: `u~j${id}`, vc: id === 1 ? 'a' : 'c' }));
  const list = { seq: 0, cells, names };
  expect(loansOf(list, lends(1))).toEqual([{ to: 'c', gpus: 1, jobs: [{ id: 2, ref: 'u~j2' }] }]);
  expect(loansOf(list, lends(9, { parent: 'up' }))).toEqual([{ to: 'c', gpus: 2, jobs: [{ id: 2, ref: 'u~j2' }] }]);
});
