import type { Suggestion } from '../api/wire';

// changesOf is what a suggestion changes in the job file, by the names of Submit's address; one that changes nothing in it has none.
export function changesOf(s: Suggestion): Record<string, string> | undefined {
  const out: Record<string, string> = {};
  if (s.role) out.role = s.role;
  if (s.tasks) out.tasks = String(s.tasks);
  if (s.leaves) out.gpus = String(s.leaves);
  if (s.sku) out.sku = s.sku;
  if (s.vc) out.vc = s.vc;
  if (s.pinned) out.pinned = s.pinned;
  if (s.time_limit) out.limit = `${Math.floor(s.time_limit / 1_000_000)}s`;
  if (s.kind === 'higher_priority' && s.priority !== undefined) out.priority = String(s.priority);
  if (s.kind === 'opportunistic') out.priority = '-1';
  return Object.keys(out).some((k) => k !== 'role') ? out : undefined;
}
