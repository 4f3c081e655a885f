import type { Node } from '../api/wire';

// nodeState is how a node stands, in one word.
export function nodeState(n: Node): string {
  if (!n.up) return 'Down';
  if (n.suspect) return 'Suspect';
  if (n.dead) return 'Dead';
  if (n.drain) return 'Draining';
  return n.cordoned ? 'Cordoned' : 'Up';
}

export function badOf(n: Node): number {
  return (n.skus ?? []).reduce((sum, s) => sum + s.bad, 0);
}
