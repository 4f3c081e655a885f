import { count } from '../format/quantity';

export const text = {
  title: 'Configuration',
  file: 'Cluster file (YAML)',
  noFile: 'The present configuration was not made of a file. Write one here to replace it.',
  plan: 'What it would do',
  same: 'This is what the cluster has now. Change the file, and what that would do stands here.',
  checking: 'Working out…',
  wrong: (n: number) => (n === 1 ? '1 mistake' : `${count(n)} mistakes`),
  nothing: 'Nothing changes but the file.',
  apply: 'Apply',
  applying: 'Applying…',
  applyTitle: 'Apply this configuration?',
  applyWhy: 'What stands under “What it would do” happens now.',
  reset: 'Back to the present file',
  stale: 'Somebody changed the configuration since you began. Your text is kept, and the plan is against what is there now: applying replaces that.',
  warnings: 'Accepted, but probably not meant',
  effects: 'In words',
  running: 'Jobs that run',
  waiting: 'Jobs that wait',
  fate: 'What happens to it',
};
