import { beforeEach, expect, test, vi } from 'vitest';
import { draftOf, forgetDraft, forgetDrafts, keepDraft } from './kept';

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
  keepDraft('alice', 'job', 'name: of alice');
  expect(draftOf('alice', 'job')).toBe('name: of alice');
  expect(draftOf('bob', 'job')).toBeNull();
  expect(stored.size).toBe(0);
  expect(draftOf('alice', 'job')).toBeNull();
});

test('a draft is forgotten, and what is no draft too', () => {
  keepDraft('alice', 'job', 'name: of alice');
  keepDraft('alice', 'configuration', 'virtualClusters:');
  forgetDraft('job');
  expect(draftOf('alice', 'configuration')).toBe('virtualClusters:');
  forgetDrafts();
  expect(stored.size).toBe(0);
  stored.set('comb-draft', 'name: an old one');
  expect(draftOf('alice', 'job')).toBeNull();
  expect(stored.size).toBe(0);
});

test('no storage is no draft', () => {
  vi.stubGlobal('sessionStorage', undefined);
  keepDraft('alice', 'job', 'name: of alice');
  expect(draftOf('alice', 'job')).toBeNull();
});
