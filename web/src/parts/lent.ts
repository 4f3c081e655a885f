import type { Cell, CellList, VC } from '../api/wire';
import { leavesOf } from '../map/cells';

export interface Loan {
  to: string; // a virtual cluster; "" where the reader does not see whose jobs they are
  gpus: number; // devices
  jobs: { id: number; ref: string }[]; // those that the reader sees
}

// loansOf are the devices that a virtual cluster lends, by the virtual cluster of the opportunistic jobs that use them: those in its
// bound cells first, then those in cells that are bound to no virtual cluster, or to the one that it is a part of, up to what it lends.
export function loansOf(list: CellList, vc: VC): Loan[] {
  const names = new Map((list.names ?? []).map((n) => [n.id, n]));
  const out = new Map<string, Loan>();
  const left = new Map((vc.skus ?? []).map((u) => [u.sku, u.lent]));
  const others = (l: Cell) => l.state === 'Used' && l.priority < 0 && names.get(l.job ?? 0)?.vc !== vc.name;
  const leaves = (list.cells ?? []).flatMap(leavesOf).filter(others);
  const around = leaves.filter((l) => !l.vc || l.vc === vc.parent);
  for (const leaf of [...leaves.filter((l) => l.vc === vc.name), ...around]) {
    const most = left.get(leaf.type) ?? 0;
    if (most === 0) continue;
    left.set(leaf.type, most - 1);
    const job = names.get(leaf.job ?? 0);
    const to = job?.vc ?? '';
    const loan = out.get(to) ?? { to, gpus: 0, jobs: [] };
    loan.gpus++;
    if (job && !loan.jobs.some((j) => j.id === job.id)) loan.jobs.push({ id: job.id, ref: job.ref });
    out.set(to, loan);
  }
  return [...out.values()].sort((a, b) => b.gpus - a.gpus);
}
