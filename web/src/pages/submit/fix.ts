import type { Address } from '../../routes';
import { at, keysAt } from './draft';
import { data, set } from './patch';

// fixed changes a job file as a suggestion says: the address has what it changes, by name.
export function fixed(file: string, change: Address): string {
  const read = data(file);
  const role = change.role || keysAt(read, ['taskRoles'])[0] || '';
  const scheduling = ['extras', 'hivedScheduler'];
  const ofRole = [...scheduling, 'taskRoles', role];
  let out = file;
  if (change.vc) out = set(out, ['defaults', 'virtualCluster'], change.vc);
  if (change.limit) out = set(out, ['extras', 'comb', 'timeLimit'], change.limit);
  if (change.tasks) out = set(out, ['taskRoles', role, 'instances'], Number(change.tasks));
  if (change.gpus) {
    out = set(out, ['taskRoles', role, 'resourcePerInstance', 'gpu'], Number(change.gpus));
    if (at(read, [...ofRole, 'skuNum']) !== undefined) out = set(out, [...ofRole, 'skuNum'], Number(change.gpus));
  }
  if (change.sku) out = set(out, [...ofRole, 'skuType'], change.sku);
  if (change.pinned) out = set(out, [...ofRole, 'pinnedCellId'], change.pinned);
  if (change.priority) out = prioritised(out, Number(change.priority));
  return out;
}

// prioritised gives a file a priority: by its class where it has one, else by its number alone, which must not stand beside a class.
function prioritised(file: string, priority: number): string {
  const own = ['extras', 'comb', 'priority'];
  const classes: Record<number, string> = { [-1]: 'oppo', 10: 'test', 100: 'prod', 120: 'crit' };
  const name = classes[priority];
  const ofClass = ['extras', 'hivedScheduler', 'jobPriorityClass'];
  if (name === undefined) return set(set(file, ofClass, undefined), own, priority);
  return set(set(file, own, undefined), ofClass, name);
}
