import { expect, test } from 'vitest';
import { commandsOf } from './commands';
import { addItem, data, set, withoutSecrets } from './patch';

const file = `# keep me
protocolVersion: 2
name:   hello   # a name

taskRoles:
  worker:
    instances: 2
    resourcePerInstance: {gpu: 1, cpu: 4}
    commands:
    - python train.py
    - |
      cat <<X
      two lines
      X
    unknown: [1,   2]
extras:
`;

test('a value changes and nothing else', () => {
  expect(set(file, ['name'], 'other')).toBe(file.replace('hello', 'other'));
  expect(set(file, ['taskRoles', 'worker', 'instances'], 3)).toBe(file.replace('instances: 2', 'instances: 3'));
  expect(set(file, ['taskRoles', 'worker', 'resourcePerInstance', 'gpu'], 8)).toBe(file.replace('gpu: 1', 'gpu: 8'));
});

test('a key comes to its map', () => {
  expect(set(file, ['taskRoles', 'worker', 'resourcePerInstance', 'memoryMB'], 64)).toBe(file.replace('cpu: 4}', 'cpu: 4, memoryMB: 64}'));
  expect(set(file, ['taskRoles', 'worker', 'dockerImage'], 'x')).toBe(file.replace('[1,   2]\n', '[1,   2]\n    dockerImage: x\n'));
  expect(set(file, ['extras', 'comb', 'timeLimit'], '90m')).toBe(`${file}  comb:\n    timeLimit: "90m"\n`);
  expect(set(file, ['defaults', 'virtualCluster'], 'vc1')).toBe(`${file}defaults:\n  virtualCluster: vc1\n`);
  expect(set('', ['name'], 'a')).toBe('name: a\n');
  expect(set('a: {}', ['a', 'b', 'c'], 1)).toBe('a: {b: {c: 1}}');
});

test('a list is written where it stood', () => {
  const changed = set(file, ['taskRoles', 'worker', 'commands'], ['echo a', 'echo "b": c']);
  expect(data(changed)).toMatchObject({ taskRoles: { worker: { commands: ['echo a', 'echo "b": c'], unknown: [1, 2] } } });
  expect(changed).toContain('    - "echo a"\n    - "echo \\"b\\": c"\n    unknown: [1,   2]\n');
});

test('a key goes', () => {
  expect(set(file, ['taskRoles', 'worker', 'instances'], undefined)).toBe(file.replace('    instances: 2\n', ''));
  expect(set('a: {b: 1, c: 2}', ['a', 'b'], undefined)).toBe('a: {c: 2}');
  expect(set('a: {b: 1, c: 2}', ['a', 'c'], undefined)).toBe('a: {b: 1}');
  expect(set(file, ['nothing'], undefined)).toBe(file);
});

test('what reads as something else is quoted', () => {
  for (const name of ['yes', '12', 'a b', 'x: y', '# c', '', '- a', '"', "it's", 'a\nb', '{', '*x', '1e3', '0x1f']) {
    expect(data(set('name: a\n', ['name'], name))).toEqual({ name });
  }
});

test('a text that is no YAML stays', () => {
  const broken = 'a: [1\nb: {';
  expect(set(broken, ['a'], 'x')).toBe(broken);
  expect(data(broken)).toBeNull();
});

test('an item of a list', () => {
  const list = 'prerequisites:\n- name: image\n  uri: a\nname: x\n';
  expect(set(list, ['prerequisites', '0', 'uri'], 'b/c:1')).toBe(list.replace('uri: a', 'uri: b/c:1'));
  expect(set(list, ['prerequisites', '7', 'uri'], 'b')).toBe(list);
  expect(addItem(list, 'prerequisites', { name: 'two' })).toBe(list.replace('uri: a\n', 'uri: a\n- {name: two}\n'));
  expect(addItem('name: x', 'prerequisites', { name: 'two' })).toBe('name: x\nprerequisites:\n- {name: two}\n');
  expect(addItem('a: [{b: c}]\n', 'a', { d: 'e' })).toBe('a: [{b: c}, {d: e}]\n');
});

test('a file that has aliases, or none to its anchor, is no data', () => {
  expect(data('a: &x 1\nb: *x\n')).toBeNull();
  expect(data('image: *base\n')).toBeNull();
  expect(data('image: *\n')).toBeNull();
});

test('what is kept has no secrets', () => {
  expect(withoutSecrets(file)).toBe(file);
  expect(withoutSecrets('secrets:\n  # old: hidden1\n  a: hidden2\n  "b c": |\n    hidden3\n  # hidden4\nname: x\n')).toBe('secrets: {"a": "******", "b c": "******"}\nname: x\n');
  expect(withoutSecrets('{name: x, secrets: {a: hidden}, type: job}')).toBe('{name: x, secrets: {"a": "******"}, type: job}');
  expect(withoutSecrets('name: x\nsecrets: {a: hidden} # hidden too')).not.toContain('hidden');
  expect(withoutSecrets('name: x\nsecrets:\n')).toBe('name: x\nsecrets:\n');
  for (const unclear of ['secrets: hidden', 'secrets: [hidden]', 'secrets:\n  a: "hidden', 'a: 1\nsecrets: {a: 1}\nsecrets: {b: 2}', 'secrets: *x']) {
    expect(withoutSecrets(unclear) ?? '').not.toContain('hidden');
  }
});

test('a command of several lines stays one, and is written as it reads', () => {
  const path = ['taskRoles', 'worker', 'commands'];
  for (const script of ['python - <<X\nif True:\n    print(1)\nX\n', 'for i in 1 2\ndo\n\n  echo $i # "x"\ndone', 'tab:\n\tmake', ' indented\nfirst', 'two\n\n', 'a\r\nb', '# a comment\nb', 'Grüße\nau']) {
    const changed = set(file, path, [script, 'echo end']);
    expect(data(changed)).toMatchObject({ name: 'hello', taskRoles: { worker: { commands: [script, 'echo end'], unknown: [1, 2] } } });
    expect(data(set('', ['a', 'b'], [script]))).toEqual({ a: { b: [script] } });
    expect(data(set(changed, path, ['echo again']))).toMatchObject({ taskRoles: { worker: { commands: ['echo again'], unknown: [1, 2] } } });
  }
  expect(set(file, path, ['if x\nthen'])).toContain('    - |-\n      if x\n      then\n');
});

test('lines that are typed are commands of their own, but for those of one script', () => {
  expect(commandsOf('a\nb', ['a'])).toEqual(['a', 'b']);
  expect(commandsOf('python - <<X\nif x:\n    y\nX', ['python - <<X'])).toEqual(['python - <<X\nif x:\n    y\nX']);
  expect(commandsOf('a\nb\nc', ['a\nb'])).toEqual(['a\nb\nc']);
});
