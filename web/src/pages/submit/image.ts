import { at, keysAt, textAt } from './draft';
import { addItem, data, set } from './patch';

// An image stands among a job's prerequisites; a role names it there.

interface Place {
  index: number; // among the prerequisites; -1 is none
  uri: string;
}

export function imageOf(read: unknown, role: string): Place {
  const wanted = textAt(read, ['taskRoles', role, 'dockerImage']);
  const list = at(read, ['prerequisites']);
  if (wanted === '' || !Array.isArray(list)) return { index: -1, uri: '' };
  const index = list.findIndex((p: unknown) => textAt(p, ['name']) === wanted);
  return { index, uri: index < 0 ? '' : textAt(list[index], ['uri']) };
}

// withImage lets a role run in an image; an empty one lets it run without. Other roles keep theirs.
export function withImage(file: string, role: string, uri: string): string {
  const read = data(file);
  const key = ['taskRoles', role, 'dockerImage'];
  if (uri === '') return set(file, key, undefined);
  const { index } = imageOf(read, role);
  const name = textAt(read, key);
  const shared = keysAt(read, ['taskRoles']).some((r) => r !== role && textAt(read, ['taskRoles', r, 'dockerImage']) === name);
  if (index >= 0 && !shared) return set(file, ['prerequisites', String(index), 'uri'], uri);
  const list = at(read, ['prerequisites']);
  const taken = Array.isArray(list) ? list.map((p: unknown) => textAt(p, ['name'])) : [];
  let fresh = `image_${role}`;
  while (taken.includes(fresh)) fresh += '_';
  return set(addItem(file, 'prerequisites', { name: fresh, type: 'dockerimage', uri }), key, fresh);
}
