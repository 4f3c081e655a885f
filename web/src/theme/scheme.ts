import { useSyncExternalStore } from 'react';

// Scheme is light or dark, as chosen here before, else as the machine says. scheme.js sets it before the first paint.
export type Scheme = 'light' | 'dark';

const place = 'comb-scheme';
const attribute = 'data-mantine-color-scheme';
const machine = window.matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();

function named(text: string | null): Scheme | undefined {
  return text === 'light' || text === 'dark' ? text : undefined;
}

function chosen(): Scheme | undefined {
  try {
    return named(window.localStorage.getItem(place));
  } catch {
    return undefined; // storage is switched off: the machine decides
  }
}

function show(scheme: Scheme): void {
  document.documentElement.setAttribute(attribute, scheme);
  for (const l of listeners) l();
}

function decide(): void {
  show(chosen() ?? (machine.matches ? 'dark' : 'light'));
}

// choose keeps what somebody wants, for all tabs.
export function choose(scheme: Scheme): void {
  try {
    window.localStorage.setItem(place, scheme);
  } catch {
    // it is for this page alone, then
  }
  show(scheme);
}

machine.addEventListener('change', decide);
window.addEventListener('storage', (e) => {
  if (e.key === place || e.key === null) decide();
});

// useScheme is what is shown.
export function useScheme(): Scheme {
  return useSyncExternalStore(
    (l) => {
      listeners.add(l);
      return () => listeners.delete(l);
    },
    () => named(document.documentElement.getAttribute(attribute)) ?? 'light',
  );
}
