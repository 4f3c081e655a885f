// What is kept of a draft in the tab, so that neither a reload nor another page loses it. It belongs to one user: nobody else
// who signs in here gets it.
const places = { job: 'comb-draft', configuration: 'comb-draft-configuration' } as const;

export type Drafted = keyof typeof places;

interface Kept {
  user: string;
  text: string;
}

function isKept(v: unknown): v is Kept {
  return typeof v === 'object' && v !== null && 'user' in v && typeof v.user === 'string' && 'text' in v && typeof v.text === 'string';
}

// draftOf gives what a user typed in this tab, and forgets what another one typed.
export function draftOf(user: string, of: Drafted): string | null {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(places[of]) ?? 'null');
    if (isKept(kept) && kept.user === user) return kept.text;
  } catch {
    // Storage is switched off, or has something else: a draft lives as long as its page.
  }
  forgetDraft(of);
  return null;
}

export function keepDraft(user: string, of: Drafted, text: string): void {
  try {
    const kept: Kept = { user, text };
    sessionStorage.setItem(places[of], JSON.stringify(kept));
  } catch {
    // As above, or it is full.
  }
}

export function forgetDraft(of: Drafted): void {
  try {
    sessionStorage.removeItem(places[of]);
  } catch {
    // As above.
  }
}

// forgetDrafts forgets all of them.
export function forgetDrafts(): void {
  forgetDraft('job');
  forgetDraft('configuration');
}
