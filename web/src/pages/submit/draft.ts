import { useRef, useState } from 'react';
import { draftOf, keepDraft } from '../../parts/kept';
import { data, type Path, set, type Value, withoutSecrets } from './patch';

// A draft is the text of a job file. The form is a view of it: each field reads and changes one place of the text.
export interface Draft {
  text: string;
  read: unknown; // as values; null where the text is no YAML
  setText: (text: string) => void;
  put: (path: Path, value: Value) => void;
}

// useDraft begins with a text of its own, or goes on with what the user typed before in this tab.
export function useDraft(user: string, begin: string, fresh: boolean): Draft {
  const [text, setOwn] = useState(() => (fresh ? begin : draftOf(user, 'job') || begin));
  const latest = useRef(text); // also of a change that is not shown yet: two may come at once, as a typed one and the end of an upload
  const setText = (next: string) => {
    latest.current = next;
    const kept = withoutSecrets(next);
    if (kept !== null) keepDraft(user, 'job', kept); // else what was kept before stays
    setOwn(next);
  };
  return { text, read: data(text), setText, put: (path, value) => setText(set(latest.current, path, value)) };
}

function isMap(v: unknown): v is Record<string, unknown> {
  return typeof v === 'object' && v !== null && !Array.isArray(v);
}

// at gives what stands at a place of a file, undefined for nothing.
export function at(read: unknown, path: Path): unknown {
  let v = read;
  for (const key of path) {
    if (!isMap(v)) return undefined;
    v = v[key];
  }
  return v;
}

export function textAt(read: unknown, path: Path): string {
  const v = at(read, path);
  return typeof v === 'string' || typeof v === 'number' ? String(v) : '';
}

export function listAt(read: unknown, path: Path): string[] {
  const v = at(read, path);
  return Array.isArray(v) ? v.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))) : [];
}

export function keysAt(read: unknown, path: Path): string[] {
  const v = at(read, path);
  return isMap(v) ? Object.keys(v) : [];
}
