import { expect, test } from 'vitest';
import { kept } from './leftout';

test('what ignore files name is left out, the nearest one decides, and .combignore has the last word', async () => {
  const files: Record<string, string> = {
    '.gitignore': '*.bin\n/data/\n!keep.bin\nlogs\n', '.combignore': '!model.bin\n', 'a.bin': '', 'model.bin': '', 'keep.bin': '', 'data/x': '', 'sub/data/x': '',
    'sub/.gitignore': '!own.bin\n*.tmp\n', 'sub/own.bin': '', 'sub/other.bin': '', 'sub/a.tmp': '', 'a.tmp': '', '.git/config': '', 'sub/.git/x': '', 'deep/logs/y': '',
  };
  const left = await kept(Object.entries(files).map(([name, text]) => ({ name, data: new Blob([text]) })));
  expect(left.map((f) => f.name).sort()).toEqual(['.combignore', '.gitignore', 'a.tmp', 'keep.bin', 'model.bin', 'sub/.gitignore', 'sub/data/x', 'sub/own.bin'].sort());
});
