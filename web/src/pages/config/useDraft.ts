import { useState } from 'react';
import { draftOf, forgetDraft, keepDraft } from '../../parts/kept';

// A Draft is a cluster file that is not applied.
export interface Draft {
  file: string;
  etag: string; // of the configuration that it was begun on
  restores: number; // the version whose file it is; 0 is none
}

function isDraft(v: unknown): v is Draft {
  return typeof v === 'object' && v !== null && 'file' in v && typeof v.file === 'string' && 'etag' in v && typeof v.etag === 'string' && 'restores' in v && typeof v.restores === 'number';
}

function read(text: string | null): Draft | null {
  try {
    const v: unknown = JSON.parse(text ?? 'null');
    return isDraft(v) ? v : null;
  } catch {
    return null; // of another version of the portal
  }
}

// useDraft is what a user typed, in this tab; null is the present file, whatever that becomes.
export function useDraft(user: string): [Draft | null, (next: Draft | null) => void] {
  const [draft, setOwn] = useState(() => read(draftOf(user, 'configuration')));
  const set = (next: Draft | null) => {
    if (next === null) forgetDraft('configuration');
    else keepDraft(user, 'configuration', JSON.stringify(next));
    setOwn(next);
  };
  return [draft, set];
}
