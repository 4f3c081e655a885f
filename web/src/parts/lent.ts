import type { Cell, CellList } from '../api/wire';
import { leavesOf } from '../map/cells';

export interface Loan {
  to: string; // a virtual cluster; "" where the reader does not see whose jobs they are
  gpus: number; // devices
  jobs: { id: number; ref: string }[]; // those that the reader sees
}

// loansOf are the devices that are bound to a virtual cluster and used by opportunistic jobs, by the virtual cluster of those.
export function loansOf(list: CellList, vc: string): Loan[] {
  const names = new Map((list.names ?? []).map((n) => [n.id, n]));
  const out = new Map<string, Loan>();
  const lent = (l: Cell) => l.vc === vc && l.state === 'Used' && l.priority < 0;
  for (const leaf of (list.cells ?? []).flatMap(leavesOf).filter(lent)) {
    const job = names.get(leaf.job ?? 0);
    const to = job?.vc ?? '';
    const loan = out.get(to) ?? { to, gpus: 0, jobs: [] };
    loan.gpus++;
    if (job && !loan.jobs.some((j) => j.id === job.id)) loan.jobs.push({ id: job.id, ref: job.ref });
    out.set(to, loan);
  }
  return [...out.values()].sort((a, b) => b.gpus - a.gpus);
}
