import type { NewUser } from '../../api/wire';
import { users as text } from '../../text/people';
import { Wrong } from '../../ui/Failed';

const names = ['name', 'display', 'email', 'groups', 'admin'];

// fieldsOf reads a line as spreadsheets write it: a field with a comma stands in quotes, a quote within them is doubled.
function fieldsOf(line: string): string[] {
  const out: string[] = [];
  for (const m of `,${line}`.matchAll(/,(?:[ \t]*"((?:[^"]|"")*)"[ \t]*(?=,|$)|([^,]*))/g)) {
    out.push((m[1]?.replaceAll('""', '"') ?? m[2] ?? '').trim());
  }
  return out;
}

// usersOf reads lines of users, the columns as the first line names them or in their usual order. The server checks what stands in them.
export function usersOf(lines: string, password: () => string): NewUser[] {
  const rows = lines.replace(/^\ufeff/, '').split(/\r?\n/).map(fieldsOf);
  const first = (rows[0] ?? []).map((f) => f.toLowerCase());
  const headed = first.includes('name') && first.every((f) => names.includes(f));
  const head = headed ? first : names;
  const out: NewUser[] = [];
  for (const [i, fields] of rows.entries()) {
    if ((headed && i === 0) || fields.every((f) => f === '')) continue;
    const field = (name: string) => fields[head.indexOf(name)] ?? '';
    if (field('name') === '') throw new Wrong(text.badLine(i + 1));
    out.push({
      name: field('name'), display: field('display'), email: field('email'), administrator: field('admin') === 'true',
      groups: field('groups').split(';').map((g) => g.trim()).filter((g) => g !== ''), password: password(),
    });
  }
  return out;
}

const letters = 'abcdefghijkmnpqrstuvwxyz23456789'; // 32 of them, none that looks like another

// newPassword makes one of 20 letters: 100 bits.
export function newPassword(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(20)), (b) => letters[b % 32]).join('');
}
