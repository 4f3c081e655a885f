// The tabs that a worker tells. A port says nothing when its tab is closed, so each tab holds a lock for as long as it
// lives: when the worker gets that lock, the tab is gone. Without locks, as over plain HTTP, ports stay.

// Asked is what a tab says to the worker.
export type Asked = { kind: 'hurry' } | { kind: 'holds'; lock: string };

interface Port {
  postMessage: (message: unknown) => void;
  close: () => void;
}

interface Locks {
  request: (name: string, then: () => Promise<void> | void) => Promise<unknown>;
}

export class Tabs {
  private readonly ports = new Set<Port>();
  private readonly locks: Locks | undefined;

  constructor(locks: Locks | undefined) {
    this.locks = locks;
  }

  get size(): number {
    return this.ports.size;
  }

  add(port: Port): void {
    this.ports.add(port);
  }

  // until lets a port go when its tab, which holds a lock, does.
  until(port: Port, lock: string): void {
    this.locks
      ?.request(lock, () => {
        this.ports.delete(port);
        port.close();
      })
      .catch(() => {}); // the worker ends: so do its ports
  }

  tell(message: unknown): void {
    for (const p of this.ports) p.postMessage(message);
  }
}

const held: (() => void)[] = [];

// hold takes a lock for as long as the page lives, and then calls told.
export function hold(locks: Locks | undefined, name: string, told: () => void): void {
  locks
    ?.request(name, () => {
      told();
      return new Promise<void>((leave) => held.push(leave)); // which is never called: the page's end is
    })
    .catch(() => {}); // the page ends, or may not have locks: its port stays
}
