import { expect, test } from 'vitest';
import { hold, Tabs } from './tabs';

// locksOf gives locks as a browser does: one holder of a name at a time, the next one when that is gone.
function locksOf() {
  const queues = new Map<string, (() => void)[]>();
  const gone = new Map<string, () => void>();
  const next = (name: string) => queues.get(name)?.shift()?.();
  const locks = {
    request: (name: string, then: () => Promise<void> | void) =>
      new Promise((resolve) => {
        const queue = queues.get(name) ?? [];
        const free = !gone.has(name);
        queues.set(name, queue);
        queue.push(() => {
          const leave = () => {
            gone.delete(name);
            resolve(undefined);
            next(name);
          };
          gone.set(name, leave);
          if (!(then() instanceof Promise)) leave();
        });
        if (free) next(name);
      }),
  };
  return { locks, close: (name: string) => gone.get(name)?.() };
}

test('a tab that is closed is told nothing more', () => {
  const { locks, close } = locksOf();
  const tabs = new Tabs(locks);
  const heard: string[] = [];
  for (const name of ['a', 'b']) {
    const port = { postMessage: (m: unknown) => heard.push(`${name} ${String(m)}`), close: () => heard.push(`${name} closed`) };
    tabs.add(port);
    hold(locks, name, () => tabs.until(port, name));
  }
  tabs.tell('1');
  close('a');
  tabs.tell('2');
  expect(heard).toEqual(['a 1', 'b 1', 'a closed', 'b 2']);
  expect(tabs.size).toBe(1);
});

test('without locks a tab stays', () => {
  const tabs = new Tabs(undefined);
  const port = { postMessage: () => {}, close: () => {} };
  tabs.add(port);
  tabs.until(port, 'a');
  expect(tabs.size).toBe(1);
});
