import type { Node } from '../api/wire';
import { text } from '../text/nodes';

// nodeState is how a node stands, in one word.
export function nodeState(n: Node): string {
  if (n.dead) return 'Dead';
  if (!n.up) return 'Down';
  if (n.suspect) return 'Suspect';
  if (n.drain) return 'Draining';
  if (n.cordoned) return 'Cordoned';
  return isHeld(n) ? 'HeldByOthers' : 'Up';
}

// isHeld reports whether a program that is no job's has devices of it.
function isHeld(n: Node): boolean {
  return (n.skus ?? []).some((s) => s.held_by_others);
}

// meaningOf says what a state of a node comes to, "" where its word says it.
export function meaningOf(state: string): string {
  return state === 'Down' || state === 'Dead' || state === 'Suspect' || state === 'Cordoned' || state === 'HeldByOthers' ? text.means[state] : '';
}

export function badOf(n: Node): number {
  return (n.skus ?? []).reduce((sum, s) => sum + s.bad, 0);
}

// badWords says which of its devices are bad, "" for none.
export function badWords(n: Node): string {
  return (n.skus ?? []).filter((s) => s.bad > 0).map((s) => text.badOf(s.bad, s.total, s.sku)).join(', ');
}

// reasonOf says why it takes nothing new, what its bad devices have, and who else has some.
export function reasonOf(n: Node): string {
  return [...new Set([n.reason, ...(n.skus ?? []).flatMap((s) => [s.fault, s.holders]), isPretended(n) && text.pretended])].filter(Boolean).join('; ');
}

// isPretended reports whether it has GPUs that do not exist.
export function isPretended(n: Node): boolean {
  return (n.skus ?? []).some((s) => s.pretended);
}
