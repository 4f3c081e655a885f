import type { Cell } from '../api/wire';

// How cells lie on the page, as plain numbers: no drawing here.

export type Paint = 'free' | 'used' | 'borrowed' | 'reserved';

export function paintOf(c: Cell): Paint {
  if (c.state === 'Free') return 'free';
  if (c.state === 'Used') return c.priority < 0 ? 'borrowed' : 'used';
  return 'reserved';
}

export function leavesOf(c: Cell): Cell[] {
  const children = c.children ?? [];
  return children.length === 0 ? [c] : children.flatMap(leavesOf);
}

// ownName is the last part of an address: what tells a cell from its neighbours.
export function ownName(c: Cell): string {
  return c.address.slice(c.address.lastIndexOf('/') + 1);
}

// isNode reports whether a cell is a whole machine: it has a node, and its parent has none.
export function isNode(c: Cell, parent: Cell | undefined): boolean {
  return !!c.node && !parent?.node;
}

export interface Bound {
  vc: string; // "" is none
  cells: Cell[];
}

// boundTo is the virtual view: the largest cells that are bound to virtual clusters, by virtual cluster, and last those that are bound
// to none.
export function boundTo(cells: Cell[]): Bound[] {
  const by = new Map<string, Cell[]>();
  const put = (vc: string, c: Cell) => by.set(vc, [...(by.get(vc) ?? []), c]);
  const holds = (c: Cell): boolean => !!c.virtual || (c.children ?? []).some(holds);
  const walk = (c: Cell) => {
    if (c.virtual) put(c.vc ?? '', c);
    else if (!holds(c)) put('', c);
    else (c.children ?? []).forEach(walk);
  };
  cells.forEach(walk);
  return [...by.entries()].sort(([a], [b]) => (a === '' ? 1 : b === '' ? -1 : a < b ? -1 : 1)).map(([vc, own]) => ({ vc, cells: own }));
}

// letters gives names letters to be told by where colour does not: the first that is free, in the names' order.
export function letters(names: string[]): Map<string, { letter: string; colour: string }> {
  const out = new Map<string, { letter: string; colour: string }>();
  const taken = new Set<string>();
  for (const [i, name] of [...names].sort().entries()) {
    const wanted = [...name.toUpperCase(), ...'ABCDEFGHIJKLMNOPQRSTUVWXYZ'].find((l) => /[A-Z0-9]/.test(l) && !taken.has(l)) ?? '*';
    taken.add(wanted);
    out.set(name, { letter: wanted, colour: `var(--vc-${i % 8})` });
  }
  return out;
}
