import { expect, test } from 'vitest';
import { fixed } from './fix';

const file = `# why it asks for so much
name: a
taskRoles:
  main:
    instances: 4 # all of them
    resourcePerInstance: {gpu: 2}
  other:
    instances: 1
    resourcePerInstance: {gpu: 1}
defaults:
  virtualCluster: vision
extras:
  hivedScheduler:
    jobPriorityClass: test
    taskRoles:
      main: {skuType: V100, skuNum: 2}
`;

// changed gives the lines that a change takes away and adds.
function changed(change: Record<string, string>, from = file): string[] {
  const [before, after] = [from.split('\n'), fixed(from, change).split('\n')];
  return [...before.filter((l) => !after.includes(l)).map((l) => `-${l.trim()}`), ...after.filter((l) => !before.includes(l)).map((l) => `+${l.trim()}`)];
}

test('a suggestion changes its own place of a file, and no other byte', () => {
  expect(fixed(file, {})).toBe(file);
  expect(changed({ vc: 'speech' })).toEqual(['-virtualCluster: vision', '+virtualCluster: speech']);
  expect(changed({ role: 'main', tasks: '2' })).toEqual(['-instances: 4 # all of them', '+instances: 2 # all of them']);
  expect(changed({ limit: '3600s' })).toEqual(['+comb:', '+timeLimit: "3600s"']);
  expect(changed({ sku: 'A100' })).toEqual(['-main: {skuType: V100, skuNum: 2}', '+main: {skuType: A100, skuNum: 2}']);
  expect(changed({ role: 'other', pinned: 'P1' })).toEqual(['+other:', '+pinnedCellId: P1']);
});

test('fewer GPUs of a task are its number of SKUs, too, where the file says that', () => {
  expect(changed({ role: 'main', gpus: '1' })).toEqual(['-resourcePerInstance: {gpu: 2}', '-main: {skuType: V100, skuNum: 2}', '+main: {skuType: V100, skuNum: 1}']);
  expect(fixed(file, { role: 'main', gpus: '1' }).match(/gpu: 1/g)).toHaveLength(2);
  expect(changed({ role: 'other', gpus: '3' })).toEqual(['-resourcePerInstance: {gpu: 1}', '+resourcePerInstance: {gpu: 3}']);
});

test('without the name of a role the first one is meant', () => {
  expect(changed({ tasks: '1' })).toEqual(['-instances: 4 # all of them', '+instances: 1 # all of them']);
});

test('a priority is a class where there is one, and else a number of its own', () => {
  expect(changed({ priority: '-1' })).toEqual(['-jobPriorityClass: test', '+jobPriorityClass: oppo']);
  expect(changed({ priority: '100' })).toEqual(['-jobPriorityClass: test', '+jobPriorityClass: prod']);
  expect(changed({ priority: '11' })).toEqual(['-jobPriorityClass: test', '+comb:', '+priority: 11']);
  const own = fixed(file, { priority: '11' });
  expect(changed({ priority: '120' }, own)).toEqual(['-priority: 11', '+jobPriorityClass: crit']);
});

test('a file that is no YAML stays as it is', () => {
  expect(fixed('a: [', { vc: 'speech' })).toBe('a: [');
});
