import { expect, test } from 'vitest';
import { beginVC, inVC } from './own';
import { templates } from './templates';

test('a new job begins in the only virtual cluster of its user, else in default, else in none that the user did not choose', () => {
  expect(beginVC(['speech'])).toBe('speech');
  expect(beginVC(['a', 'default', 'z'])).toBe('default');
  expect(beginVC(['a', 'z'])).toBe('');
  expect(beginVC([])).toBe('');
});

test('a template is put into a virtual cluster, or names none', () => {
  for (const t of templates) {
    expect(inVC(t.text, 'speech')).toBe(t.text.replace('virtualCluster: default', 'virtualCluster: speech'));
    const none = inVC(t.text, '');
    expect(none).toBe(t.text.replace('defaults:\n  virtualCluster: default\n', ''));
    expect(inVC(none, 'speech')).toContain('defaults:\n  virtualCluster: speech\n');
  }
});

test('where no virtual cluster is chosen the other defaults of a file stay', () => {
  const file = 'name: a\ndefaults: {virtualCluster: default, deployment: fast}\ntype: job\n';
  expect(inVC(file, '')).toBe('name: a\ndefaults: {deployment: fast}\ntype: job\n');
  expect(inVC('defaults:\n  deployment: fast\n  virtualCluster: default\n', '')).toBe('defaults:\n  deployment: fast\n');
  expect(inVC('name: a\ndefaults: {virtualCluster: default}\n', '')).toBe('name: a\n');
  expect(inVC('name: a\n', '')).toBe('name: a\n');
});
