import { beforeEach, expect, test, vi } from 'vitest';
import { draftOf, forgetDraft, keepDraft } from './kept';

const stored = new Map<string, string>();

beforeEach(() => {
  stored.clear();
  vi.stubGlobal('sessionStorage', {
    getItem: (k: string) => stored.get(k) ?? null,
    setItem: (k: string, v: string) => stored.set(k, v),
    removeItem: (k: string) => stored.delete(k),
  });
});

test('a draft is its user\'s', () => {
  keepDraft('alice', 'name: of alice');
  expect(draftOf('alice')).toBe('name: of alice');
  expect(draftOf('bob')).toBeNull();
  expect(stored.size).toBe(0);
  expect(draftOf('alice')).toBeNull();
});

test('a draft is forgotten, and what is no draft too', () => {
  keepDraft('alice', 'name: of alice');
  forgetDraft();
  expect(stored.size).toBe(0);
  stored.set('comb-draft', 'name: an old one');
  expect(draftOf('alice')).toBeNull();
  expect(stored.size).toBe(0);
});

test('no storage is no draft', () => {
  vi.stubGlobal('sessionStorage', undefined);
  keepDraft('alice', 'name: of alice');
  expect(draftOf('alice')).toBeNull();
});
