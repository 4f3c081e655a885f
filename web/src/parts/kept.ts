// What is kept of a draft in the tab, so that a reload does not lose it. It belongs to one user: nobody else who signs in
// here gets it.
const place = 'comb-draft';

interface Kept {
  user: string;
  text: string;
}

function isKept(v: unknown): v is Kept {
  return typeof v === 'object' && v !== null && 'user' in v && typeof v.user === 'string' && 'text' in v && typeof v.text === 'string';
}

// draftOf gives what a user typed in this tab, and forgets what another one typed.
export function draftOf(user: string): string | null {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(place) ?? 'null');
    if (isKept(kept) && kept.user === user) return kept.text;
  } catch {
    // Storage is switched off, or has something else: a draft lives as long as its page.
  }
  forgetDraft();
  return null;
}

export function keepDraft(user: string, text: string): void {
  try {
    const kept: Kept = { user, text };
    sessionStorage.setItem(place, JSON.stringify(kept));
  } catch {
    // As above, or it is full.
  }
}

export function forgetDraft(): void {
  try {
    sessionStorage.removeItem(place);
  } catch {
    // As above.
  }
}
