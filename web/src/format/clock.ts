import { useSyncExternalStore } from 'react';
import { now } from './time';

// The one clock of the page: it ticks once a second while somebody listens.
const listeners = new Set<() => void>();
let timer = 0;
let last = now();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (listeners.size === 1) {
    last = now();
    timer = window.setInterval(() => {
      last = now();
      for (const l of listeners) l();
    }, 1000);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) window.clearInterval(timer);
  };
}

const present = () => last;

// useNow is the present time in microseconds, anew each second.
export function useNow(): number {
  return useSyncExternalStore(subscribe, present, present);
}
