import { at, keysAt, textAt } from './draft';
import { data, set } from './patch';

// The ports of a role as words: "http, ssh 2" are one port called http and two called ssh.

const one = /^([A-Za-z_][A-Za-z0-9_-]*)(?:\s+([1-9][0-9]{0,3}))?$/;

function place(role: string): string[] {
  return ['taskRoles', role, 'resourcePerInstance', 'ports'];
}

export function portsOf(read: unknown, role: string): string {
  return keysAt(read, place(role))
    .map((name) => [name, textAt(read, [...place(role), name])])
    .map(([name, n]) => (n === '1' ? name : `${name} ${n}`))
    .join(', ');
}

// withPorts changes a file to have these ports; null where the words are not ports.
export function withPorts(file: string, role: string, words: string): string | null {
  const wanted = new Map<string, number>();
  for (const word of words.split(',').map((w) => w.trim()).filter((w) => w !== '')) {
    const found = one.exec(word);
    if (!found) return null;
    wanted.set(found[1] ?? '', Number(found[2] ?? 1));
  }
  const path = place(role);
  if (wanted.size === 0) return at(data(file), path) === undefined ? file : set(file, path, undefined);
  let out = file;
  for (const name of keysAt(data(file), path)) {
    if (!wanted.has(name)) out = set(out, [...path, name], undefined);
  }
  for (const [name, n] of wanted) {
    if (textAt(data(out), [...path, name]) !== String(n)) out = set(out, [...path, name], n);
  }
  return out;
}
