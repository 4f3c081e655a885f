import type { Cell } from '../api/wire';

// How cells lie on the page, as plain numbers: no drawing here.

export type Paint = 'free' | 'used' | 'borrowed' | 'reserved';

export function paintOf(c: Cell): Paint {
  if (c.state === 'Free') return 'free';
  if (c.state === 'Used') return c.priority < 0 ? 'borrowed' : 'used';
  return 'reserved';
}

export type Health = 'free' | 'used' | 'bad' | 'suspect' | 'down' | 'out' | 'others';

// healthOf says how a leaf is, by the state of its node in one word: what is wrong with it or its node, else whether it is used. Of a
// node that is out as a whole the leaves are bad, too: that is not said of each.
export function healthOf(c: Cell, node: string): Health {
  if (node === 'Down' || node === 'Dead') return 'down';
  if (node === 'Suspect') return 'suspect';
  if (node === 'Cordoned' || node === 'Draining') return 'out';
  if (!c.healthy) return node === 'HeldByOthers' ? 'others' : 'bad';
  return c.state === 'Free' ? 'free' : 'used';
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

// A Piece is a cell that is drawn by itself.
export interface Piece {
  cell: Cell;
  within: boolean; // it is a part of a node, such as a switch or a GPU
}

export interface Bound {
  vc: string; // "" is none
  pieces: Piece[];
}

// boundTo is the virtual view: the largest cells that are bound to virtual clusters, by virtual cluster, and last those that are bound
// to none.
export function boundTo(cells: Cell[]): Bound[] {
  const by = new Map<string, Piece[]>();
  const put = (vc: string, cell: Cell, within: boolean) => {
    const own = by.get(vc) ?? [];
    own.push({ cell, within });
    by.set(vc, own);
  };
  const holding = new Set<Cell>(); // those in which a bound one is
  const mark = (c: Cell): boolean => {
    const inside = (c.children ?? []).map(mark).includes(true);
    if (inside) holding.add(c);
    return inside || !!c.virtual;
  };
  cells.forEach(mark);
  const walk = (c: Cell, parent: Cell | undefined) => {
    if (c.virtual) put(c.vc ?? '', c, !!parent?.node);
    else if (!holding.has(c)) put('', c, !!parent?.node);
    else for (const child of c.children ?? []) walk(child, c);
  };
  for (const c of cells) walk(c, undefined);
  return [...by.entries()].sort(([a], [b]) => (a === '' ? 1 : b === '' ? -1 : a < b ? -1 : 1)).map(([vc, pieces]) => ({ vc, pieces }));
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
