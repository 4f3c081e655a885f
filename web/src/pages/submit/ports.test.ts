import { expect, test } from 'vitest';
import { data } from './patch';
import { portsOf, withPorts } from './ports';

const file = 'taskRoles:\n  w:\n    instances: 1 # kept\n    resourcePerInstance: {gpu: 1}\n';

test('ports as words and back', () => {
  const two = withPorts(file, 'w', 'http, ssh 2') ?? '';
  expect(portsOf(data(two), 'w')).toBe('http, ssh 2');
  expect(two).toContain('instances: 1 # kept');
  const other = withPorts(two, 'w', 'ssh 3, tb') ?? '';
  expect(portsOf(data(other), 'w')).toBe('ssh 3, tb');
  const none = withPorts(other, 'w', '  ') ?? '';
  expect(data(none)).toEqual(data(file));
  expect(withPorts(file, 'w', 'http x')).toBeNull();
  expect(withPorts(file, 'w', '80')).toBeNull();
  expect(withPorts(file, 'w', '')).toBe(file);
});
