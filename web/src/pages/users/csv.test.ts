import { expect, test } from 'vitest';
import { newPassword, usersOf } from './csv';

test('lines of users', () => {
  expect(usersOf('groups,name\n vision; nlp ,alice\n\n,bob\n', () => 'p')).toEqual([
    { name: 'alice', display: '', email: '', administrator: false, groups: ['vision', 'nlp'], password: 'p' },
    { name: 'bob', display: '', email: '', administrator: false, groups: [], password: 'p' },
  ]);
  expect(usersOf('erin,Erin E.,erin@example.com,vision,true', () => 'p')[0]).toMatchObject({ display: 'Erin E.', administrator: true });
  expect(() => usersOf('a\n,b', () => 'p')).toThrow('Line 2 has no name');
});

test('lines as a spreadsheet writes them', () => {
  expect(usersOf('\ufeffName,Display,Groups\r\nalice,"Doe, ""Al"" Alice",vision\r\n', () => 'p')).toMatchObject([
    { name: 'alice', display: 'Doe, "Al" Alice', groups: ['vision'] },
  ]);
  expect(usersOf(',\nbob,,b@example.com', () => 'p')).toMatchObject([{ name: 'bob', display: '', email: 'b@example.com' }]);
});

test('passwords differ', () => {
  const made = new Set(Array.from({ length: 50 }, newPassword));
  expect(made.size).toBe(50);
  for (const p of made) expect(p).toMatch(/^[a-z2-9]{20}$/);
});
