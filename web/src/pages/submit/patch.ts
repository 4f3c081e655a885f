import { isMap, isScalar, isSeq, type Node, type Pair, parseDocument, type YAMLMap } from 'yaml';

// Changes of a YAML text at one place, which leave every other byte as it was: comments, order, blank lines and keys
// that no form knows. A library that writes the whole document anew would lose them.

export type Value = string | number | string[] | undefined; // undefined removes the key
export type Path = readonly string[];

type Range = [number, number]; // of bytes in the text

function rangeOf(node: unknown): Range | undefined {
  if ((isScalar(node) || isMap(node) || isSeq(node)) && node.range) return [node.range[0], node.range[1]];
  return undefined;
}

function pairOf(map: YAMLMap, key: string): Pair | undefined {
  return map.items.find((p) => isScalar(p.key) && String(p.key.value) === key);
}

const safe = /^[A-Za-z_./][A-Za-z0-9_./@+-]*(?::[A-Za-z0-9_./@+-]+)*$/;
const words = new Set(['true', 'false', 'null', 'yes', 'no', 'on', 'off', 'y', 'n', '.inf', '.nan']);

function scalar(v: string | number): string {
  if (typeof v === 'number') return String(v);
  return safe.test(v) && !words.has(v.toLowerCase()) ? v : JSON.stringify(v);
}

// item writes one of a list; a text of several lines as a block that keeps them, where a block can have it.
function item(v: string, indent: string): string {
  const plain = v.includes('\n') && !/^[\s#]|\n\n$|[^\n\t\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd]/.test(v);
  if (!plain) return scalar(v);
  const ends = v.endsWith('\n');
  const lines = (ends ? v.slice(0, -1) : v).split('\n').map((l) => (l === '' ? '' : `${indent}  ${l}`));
  return `|${ends ? '' : '-'}\n${lines.join('\n')}`;
}

// entry writes a key with its value, as a block at an indentation.
function entry(path: Path, v: string | number | string[], indent: string): string {
  const [key = '', ...rest] = path;
  const head = `${indent}${scalar(key)}:`;
  if (rest.length > 0) return `${head}\n${entry(rest, v, `${indent}  `)}`;
  if (!Array.isArray(v)) return `${head} ${scalar(v)}\n`;
  if (v.length === 0) return `${head} []\n`;
  return `${head}\n${v.map((one) => `${indent}  - ${item(one, `${indent}  `)}\n`).join('')}`;
}

// inline writes the same inside of braces.
function inline(path: Path, v: string | number | string[]): string {
  const [key = '', ...rest] = path;
  if (rest.length > 0) return `${scalar(key)}: {${inline(rest, v)}}`;
  return `${scalar(key)}: ${Array.isArray(v) ? `[${v.map(scalar).join(', ')}]` : scalar(v)}`;
}

function lineStart(text: string, at: number): number {
  return text.lastIndexOf('\n', at - 1) + 1;
}

// lineEnd is behind the end of the line in which a value ends.
function lineEnd(text: string, at: number): number {
  if (at > 0 && text[at - 1] === '\n') return at;
  const end = text.indexOf('\n', at);
  return end < 0 ? text.length : end + 1;
}

function column(text: string, at: number): string {
  return ' '.repeat(at - lineStart(text, at));
}

function splice(text: string, [from, to]: Range, by: string): string {
  return text.slice(0, from) + by + text.slice(to);
}

// append puts a line behind a block; the block's last line may lack its end.
function append(text: string, at: number, lines: string): string {
  const gap = at > 0 && text[at - 1] !== '\n' ? '\n' : '';
  return splice(text, [at, at], gap + lines);
}

function endOf(pair: Pair | undefined): number | undefined {
  return rangeOf(pair?.value)?.[1] ?? rangeOf(pair?.key)?.[1];
}

function insert(text: string, map: YAMLMap, path: Path, v: string | number | string[]): string {
  const range = rangeOf(map);
  if (range === undefined) return text;
  if (map.flow) {
    const close = range[1] - 1;
    return splice(text, [close, close], (map.items.length > 0 ? ', ' : '') + inline(path, v));
  }
  const last = endOf(map.items.at(-1));
  return last === undefined ? text : append(text, lineEnd(text, last), entry(path, v, column(text, range[0])));
}

function remove(text: string, map: YAMLMap, pair: Pair): string {
  const key = rangeOf(pair.key);
  const end = endOf(pair);
  if (key === undefined || end === undefined) return text;
  if (!map.flow) return splice(text, [lineStart(text, key[0]), lineEnd(text, end)], '');
  const before = /,\s*$/.exec(text.slice(0, key[0]));
  if (before) return splice(text, [before.index, end], '');
  const after = /^\s*,\s*/.exec(text.slice(end));
  return splice(text, [key[0], end + (after?.[0].length ?? 0)], '');
}

function replace(text: string, pair: Pair, v: string | number | string[]): string {
  const key = rangeOf(pair.key);
  const range = rangeOf(pair.value);
  if (key === undefined) return text;
  if (range === undefined || range[0] === range[1]) {
    const colon = text.indexOf(':', key[1]) + 1; // a key without a value
    return splice(text, [colon, colon], ` ${Array.isArray(v) ? `[${v.map(scalar).join(', ')}]` : scalar(v)}`);
  }
  if (!Array.isArray(v)) return splice(text, range, scalar(v) + (text[range[1] - 1] === '\n' ? '\n' : ''));
  if (v.length === 0 || (isSeq(pair.value) && pair.value.flow)) return splice(text, range, `[${v.map(scalar).join(', ')}]`);
  const indent = column(text, range[0]);
  const lines = v.map((one) => `- ${item(one, indent)}`).join(`\n${indent}`);
  return splice(text, range, lines + (text[range[1] - 1] === '\n' ? '\n' : ''));
}

// set changes one value of a text. A text that is no YAML stays as it is.
export function set(text: string, path: Path, v: Value): string {
  const doc = parseDocument(text);
  if (doc.errors.length > 0) return text;
  let node: Node | null | undefined = doc.contents;
  if (!isMap(node)) return node === null && v !== undefined ? append(text, text.length, entry(path, v, '')) : text;
  for (const [i, key] of path.entries()) {
    if (isSeq(node)) {
      const item: unknown = node.items[Number(key)]; // a list's items are reached by number, and not made or removed
      if (!isMap(item)) return text;
      node = item;
      continue;
    }
    if (!isMap(node)) return text;
    const pair: Pair | undefined = pairOf(node, key);
    if (pair === undefined) return v === undefined ? text : insert(text, node, path.slice(i), v);
    if (i === path.length - 1) return v === undefined ? remove(text, node, pair) : replace(text, pair, v);
    const next = pair.value;
    if (isMap(next) || isSeq(next)) node = next;
    else return v === undefined ? text : splitNull(text, pair, path.slice(i + 1), v);
  }
  return text;
}

// splitNull fills a map that is not there yet: "key:" with nothing behind it.
function splitNull(text: string, pair: Pair, path: Path, v: string | number | string[]): string {
  const key = rangeOf(pair.key);
  const range = rangeOf(pair.value);
  if (key === undefined || (range !== undefined && range[0] !== range[1])) return text;
  return append(text, lineEnd(text, key[1]), entry(path, v, `${column(text, key[0])}  `));
}

// addItem puts a map of texts, written in braces, behind the items of a list; the list is made where it is not there.
export function addItem(text: string, key: string, item: Record<string, string>): string {
  const doc = parseDocument(text);
  if (doc.errors.length > 0) return text;
  const braces = `{${Object.entries(item).map(([k, v]) => inline([k], v)).join(', ')}}`;
  const list = isMap(doc.contents) ? pairOf(doc.contents, key)?.value : undefined;
  const range = rangeOf(list);
  if (!isSeq(list) || range === undefined) return append(text, text.length, `${key}:\n- ${braces}\n`);
  if (list.flow) return splice(text, [range[1] - 1, range[1] - 1], (list.items.length > 0 ? ', ' : '') + braces);
  const last = rangeOf(list.items.at(-1));
  return last === undefined ? text : append(text, lineEnd(text, last[1]), `${column(text, range[0])}- ${braces}\n`);
}

// data reads a text as plain values; null where it is no YAML, or YAML with aliases, which the form cannot change at one place.
export function data(text: string): unknown {
  try {
    const doc = parseDocument(text);
    return doc.errors.length > 0 ? null : doc.toJS({ maxAliasCount: 0 });
  } catch {
    return null; // an alias, or deeper than the reader goes
  }
}

// withoutSecrets gives a text whose secrets have no values, nor comments; null where it cannot tell what they are.
export function withoutSecrets(text: string): string | null {
  if (!/secrets/.test(text)) return text;
  try {
    const doc = parseDocument(text);
    if (doc.errors.length > 0 || !isMap(doc.contents)) return null;
    const pair = pairOf(doc.contents, 'secrets');
    const key = rangeOf(pair?.key);
    if (pair === undefined || key === undefined) return doc.has('secrets') ? null : text;
    const value = pair.value;
    if (isScalar(value) && value.value === null) return text;
    if (!isMap(value) || !value.range) return null;
    const names = value.items.map((p) => `${JSON.stringify(String(isScalar(p.key) ? p.key.value : ''))}: "******"`);
    const end = value.range[2];
    const gap = text[end - 1] === '\n' ? '\n' : '';
    return splice(text, [text.indexOf(':', key[1]) + 1, end], ` {${names.join(', ')}}${gap}`);
  } catch {
    return null;
  }
}
