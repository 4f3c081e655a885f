import type { Query, QueryClient } from '@tanstack/react-query';

const often = 750; // ms between readings of what is shown

// Refresher reads again what is shown when something has happened, at most once a second. What is not shown is read when
// it is opened. What is being read is not begun anew, since it would never come to its end where much happens: it is read
// once more afterwards.
export class Refresher {
  private keys = new Set<string>();
  private later = new Set<string>(); // hashes of queries
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly cache: QueryClient;

  constructor(cache: QueryClient) {
    this.cache = cache;
  }

  ask(keys: string[]): void {
    for (const k of keys) this.keys.add(k);
    this.timer ??= setTimeout(() => this.refresh(), often);
  }

  private refresh(): void {
    this.timer = undefined;
    const { keys, later } = this;
    this.keys = new Set();
    this.later = new Set();
    const wanted = (q: Query) => later.has(q.queryHash) || (typeof q.queryKey[0] === 'string' && keys.has(q.queryKey[0]));
    void this.cache.invalidateQueries({
      predicate: (q) => {
        if (!wanted(q)) return false;
        const busy = q.isActive() && q.state.fetchStatus === 'fetching';
        if (busy) this.later.add(q.queryHash);
        return !busy;
      },
    });
    if (this.later.size > 0) this.ask([]);
  }
}
