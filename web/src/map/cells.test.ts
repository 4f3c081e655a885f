import { expect, test } from 'vitest';
import type { Cell } from '../api/wire';
import { boundTo, healthOf, isNode, leavesOf, letters, ownName, paintOf } from './cells';

const leaf = (address: string, more: Partial<Cell> = {}): Cell => ({ type: 'GPU', address, level: 1, state: 'Free', healthy: true, priority: 0, node: 'n1', ...more });

test('names have letters of their own', () => {
  const l = letters(['vision', 'voice', 'nlp', 'n']);
  expect([...l.values()].map((v) => v.letter).sort()).toEqual(['L', 'N', 'O', 'V'].sort());
  expect(new Set([...l.values()].map((v) => v.colour)).size).toBe(4);
});

test('a leaf is painted by what uses it', () => {
  expect(paintOf(leaf('a'))).toBe('free');
  expect(paintOf(leaf('a', { state: 'Used', priority: 10 }))).toBe('used');
  expect(paintOf(leaf('a', { state: 'Used', priority: -1 }))).toBe('borrowed');
  expect(paintOf(leaf('a', { state: 'Reserving' }))).toBe('reserved');
});

test('how a leaf is: what its node says goes before what it says itself', () => {
  const used = leaf('a', { state: 'Used' });
  const bad = leaf('a', { state: 'Used', healthy: false });
  expect([leaf('a'), leaf('a', { state: 'Reserved' }), used, bad].map((l) => healthOf(l, 'Up'))).toEqual(['free', 'used', 'used', 'bad']);
  expect(['Down', 'Dead', 'Suspect', 'Cordoned', 'Draining'].map((state) => healthOf(bad, state))).toEqual(['down', 'down', 'suspect', 'out', 'out']);
  expect([bad, leaf('a')].map((l) => healthOf(l, 'HeldByOthers'))).toEqual(['others', 'free']);
});

test('leaves, names and nodes', () => {
  const node = leaf('rack/n1', { level: 2, children: [leaf('rack/n1/0'), leaf('rack/n1/1')] });
  const rack: Cell = { type: 'RACK', address: 'rack', level: 3, state: 'Free', healthy: true, priority: 0, children: [node] };
  expect(leavesOf(rack).map(ownName)).toEqual(['0', '1']);
  expect(isNode(node, rack)).toBe(true);
  expect(isNode(leaf('rack/n1/0'), node)).toBe(false);
  expect(isNode(rack, undefined)).toBe(false);
});

test('the virtual view has each bound cell once, at its largest, and what is bound to none', () => {
  const cell = (address: string, more: Partial<Cell> = {}): Cell => ({ address, type: 't', level: 1, healthy: true, priority: 0, state: 'Free', ...more });
  const rack = cell('r', {
    children: [cell('r/n1', { node: 'n1', virtual: 'a/0', vc: 'a', children: [cell('r/n1/0', { node: 'n1', virtual: 'a/0', vc: 'a' })] }), cell('r/n2', { node: 'n2' }), cell('r/n3', { node: 'n3', children: [cell('r/n3/0', { node: 'n3', virtual: 'b/1', vc: 'b' }), cell('r/n3/1', { node: 'n3' })] })],
  });
  expect(boundTo([rack, cell('s')]).map((p) => [p.vc, p.pieces.map((c) => c.cell.address + (c.within ? ' within' : ''))])).toEqual([['a', ['r/n1']], ['b', ['r/n3/0 within']], ['', ['r/n2', 'r/n3/1 within', 's']]]);
});
