import { expect, test } from 'vitest';
import type { Node } from '../api/wire';
import { badWords, meaningOf, nodeState, reasonOf } from './node';

const node = (more: Partial<Node>): Node => ({ name: 'n', up: true, skus: [], ...more });

const held = { chain: 'c', sku: 'V100', device: 'GPU', gpu: 1, total: 8, used: 0, bad: 0, held_by_others: 8, holders: '8 GPUs held by tenant/thief' };

test('how a node stands, in one word: what is worst', () => {
  const worse: [Partial<Node>, string][] = [
    [{}, 'Up'], [{ skus: [held] }, 'HeldByOthers'], [{ skus: [held], cordoned: true }, 'Cordoned'], [{ cordoned: true }, 'Cordoned'], [{ cordoned: true, drain: 5 }, 'Draining'], [{ cordoned: true, drain: 5, suspect: 5 }, 'Suspect'],
    [{ up: false, suspect: 5, cordoned: true }, 'Down'], [{ up: false, dead: true, cordoned: true }, 'Dead'], [{ dead: true, cordoned: true }, 'Dead'],
  ];
  for (const [more, state] of worse) expect(nodeState(node(more))).toBe(state);
});

test('what a state comes to is said of those whose word does not say it', () => {
  expect(['Down', 'Dead', 'Suspect', 'Cordoned', 'HeldByOthers'].filter((s) => meaningOf(s) === '')).toEqual([]);
  expect(['Up', 'Draining', 'toString'].filter((s) => meaningOf(s) !== '')).toEqual([]);
});

test('bad devices and reasons, each once', () => {
  const sku = (more: object) => ({ chain: 'c', sku: 'V100', device: 'GPU', gpu: 1, total: 8, used: 0, bad: 0, ...more });
  const n = node({ reason: 'new fan', skus: [sku({ bad: 2, fault: 'hot' }), sku({ sku: 'A100', bad: 1, fault: 'hot' }), sku({ sku: 'K80' })] });
  expect(badWords(n)).toBe('2 of 8 V100, 1 of 8 A100');
  expect(reasonOf(n)).toBe('new fan; hot');
  expect(reasonOf(node({ reason: 'new fan', skus: [held] }))).toBe('new fan; 8 GPUs held by tenant/thief');
  expect(reasonOf(node({ skus: [sku({ pretended: true })] }))).toBe('Its GPUs are pretended: tasks get their numbers, and no device');
});
