import ignore, { type Ignore } from 'ignore';
import type { Packed } from './tar';

// What an upload leaves out, as the command line does: .git, and what .gitignore and .combignore of each folder name. In one folder
// .combignore has the last word.

const lists = ['.gitignore', '.combignore'];

function folderOf(name: string): string {
  return name.slice(0, name.lastIndexOf('/') + 1);
}

// kept gives the files that are not left out. Names are within the folder that was chosen.
export async function kept(files: Packed[]): Promise<Packed[]> {
  const rules = new Map<string, Ignore>();
  for (const list of lists) {
    for (const f of files.filter((one) => one.name === folderOf(one.name) + list)) {
      const folder = folderOf(f.name);
      const of = rules.get(folder) ?? ignore();
      rules.set(folder, of.add(await f.data.text()));
    }
  }
  return files.filter((f) => !out(f.name, rules));
}

// out tells whether a file is left out: by .git, or by the rules of the nearest folder that say something of it or of one that it is in.
function out(name: string, rules: Map<string, Ignore>): boolean {
  const steps = name.split('/');
  if (steps.includes('.git')) return true;
  for (let i = 1; i <= steps.length; i++) {
    const path = steps.slice(0, i).join('/') + (i < steps.length ? '/' : '');
    let ignored = false;
    for (let j = 0; j < i; j++) {
      const folder = steps.slice(0, j).map((s) => `${s}/`).join('');
      const said = rules.get(folder)?.test(path.slice(folder.length));
      if (said?.ignored) ignored = true;
      else if (said?.unignored) ignored = false;
    }
    if (ignored) return true; // what is in a folder that is left out is not looked at
  }
  return false;
}
