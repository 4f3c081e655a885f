// An archive of files in the format of tar, as a server takes an upload. Names that its oldest form has no room for stand in an
// entry of their own before the file (pax).

export interface Packed {
  name: string; // with its folders, "/" between them
  data: Blob;
}

const block = 512;
const text = new TextEncoder();

function put(header: Uint8Array, at: number, value: string): void {
  header.set(text.encode(value), at);
}

function octal(n: number, width: number): string {
  return `${n.toString(8).padStart(width - 1, '0')}\0`;
}

function headerOf(name: string, size: number, type: string): Uint8Array<ArrayBuffer> {
  const h = new Uint8Array(block);
  put(h, 0, name);
  put(h, 100, octal(type === '5' ? 0o755 : 0o644, 8));
  put(h, 108, octal(0, 8));
  put(h, 116, octal(0, 8));
  put(h, 124, octal(size, 12));
  put(h, 136, octal(0, 12)); // no time: the same files are the same archive
  put(h, 148, '        ');
  put(h, 156, type);
  put(h, 257, 'ustar\x0000');
  put(h, 148, `${octal(h.reduce((a, b) => a + b, 0), 7)} `);
  return h;
}

function padding(size: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array((block - (size % block)) % block);
}

// record is a line of pax: its own length, as a number, belongs to it.
function record(key: string, value: string): Uint8Array<ArrayBuffer> {
  const rest = text.encode(` ${key}=${value}\n`);
  let size = rest.length + 1;
  while (String(size).length + rest.length !== size) size = String(size).length + rest.length;
  const out = new Uint8Array(size);
  out.set(text.encode(String(size)));
  out.set(rest, size - rest.length);
  return out;
}

function named(name: string, size: number, type: string): BlobPart[] {
  const bytes = text.encode(name);
  if (bytes.length < 100 && bytes.length === name.length) return [headerOf(name, size, type)];
  const long = record('path', name);
  return [headerOf('pax', long.length, 'x'), long, padding(long.length), headerOf('long-name', size, type)];
}

// tar packs files, in order of their names, with the folders that they are in.
export function tar(files: Packed[]): Blob {
  const parts: BlobPart[] = [];
  const folders = new Set<string>();
  const sorted = [...files].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  for (const f of sorted) {
    const steps = f.name.split('/').slice(0, -1);
    for (let i = 1; i <= steps.length; i++) {
      const folder = `${steps.slice(0, i).join('/')}/`;
      if (folders.has(folder)) continue;
      folders.add(folder);
      parts.push(...named(folder, 0, '5'));
    }
    parts.push(...named(f.name, f.data.size, '0'), f.data, padding(f.data.size));
  }
  parts.push(new Uint8Array(2 * block));
  return new Blob(parts, { type: 'application/x-tar' });
}

// digest is the name of an upload: what its bytes sum up to.
export async function digest(archive: Blob): Promise<string> {
  const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', await archive.arrayBuffer()));
  return `sha256:${Array.from(sum, (b) => b.toString(16).padStart(2, '0')).join('')}`;
}
