import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { digest, tar } from './tar';

test('the archive is one that tar reads, with long names and names in all letters', async () => {
  const long = `${'folder-with-a-long-name/'.repeat(6)}file`;
  const files: Record<string, string> = { 'train.py': 'print(1)\n', 'sub/ä-é-中.txt': 'text', [long]: 'x'.repeat(1500), empty: '', 'sub/deep/a': 'b' };
  const archive = tar(Object.entries(files).map(([name, text]) => ({ name, data: new Blob([text]) })));
  const dir = mkdtempSync(join(tmpdir(), 'comb-tar-'));
  try {
    writeFileSync(join(dir, 'a.tar'), new Uint8Array(await archive.arrayBuffer()));
    execFileSync('tar', ['-xf', 'a.tar'], { cwd: dir, env: { ...process.env, LC_ALL: 'C.UTF-8' } });
    for (const [name, text] of Object.entries(files)) expect(readFileSync(join(dir, name), 'utf8')).toBe(text);
  } finally {
    rmSync(dir, { recursive: true });
  }
  expect(archive.size % 512).toBe(0);
});

test('the same files in another order are the same archive', async () => {
  const a = { name: 'a', data: new Blob(['1']) };
  const b = { name: 'b/c', data: new Blob(['2']) };
  expect(await digest(tar([a, b]))).toBe(await digest(tar([b, a])));
  expect(await digest(tar([a]))).toMatch(/^sha256:[0-9a-f]{64}$/);
});
