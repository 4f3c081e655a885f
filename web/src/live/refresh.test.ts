import { QueryClient, QueryObserver } from '@tanstack/react-query';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Refresher } from './refresh';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

// slow is a query whose answers take long: it counts those that were begun, given up and come.
function slow(cache: QueryClient, ms: number) {
  const seen = { begun: 0, gone: 0, come: 0 };
  const observer = new QueryObserver(cache, {
    queryKey: ['jobs', 1], staleTime: Infinity,
    queryFn: ({ signal }) => {
      seen.begun++;
      signal.addEventListener('abort', () => seen.gone++);
      return new Promise<number>((resolve) => setTimeout(() => resolve(++seen.come), ms));
    },
  });
  return { seen, leave: observer.subscribe(() => {}) };
}

test('an answer that takes long comes, however much happens, and is asked for once more after it', async () => {
  const cache = new QueryClient();
  const refresher = new Refresher(cache);
  const { seen, leave } = slow(cache, 3000);
  await vi.advanceTimersByTimeAsync(3000);
  for (let i = 0; i < 40; i++) {
    refresher.ask(['jobs']);
    await vi.advanceTimersByTimeAsync(250);
  }
  expect(seen.gone).toBe(0);
  expect(seen.come).toBeGreaterThanOrEqual(3);
  const begun = seen.begun;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(seen.begun).toBeGreaterThan(begun); // for what happened while the last one was on its way
  expect(seen.come).toBe(seen.begun);
  leave();
});

test('what has other keys is left alone', async () => {
  const cache = new QueryClient();
  const refresher = new Refresher(cache);
  const { seen, leave } = slow(cache, 1);
  await vi.advanceTimersByTimeAsync(1);
  refresher.ask(['vcs']);
  await vi.advanceTimersByTimeAsync(5000);
  expect(seen.begun).toBe(1);
  leave();
});
