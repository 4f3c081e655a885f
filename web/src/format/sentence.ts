import { clock, duration, now } from './time';

const second = 1_000_000;

// told is a text of the server as the portal writes it: times by the clock, spans without seconds that are none, and a field where
// the command line has a flag.
export function told(words: string): string {
  return words
    .replace('name one with --vc: ', 'choose one: ')
    .replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, (t) => clock(Date.parse(t) * 1000, now()))
    .replace(/\b(\d+) min 0 s\b/g, '$1 min')
    .replace(/\btime limit of (\d+) s\b/g, (_, s: string) => `time limit of ${duration(Number(s) * second)}`);
}

// capital begins a text that begins with no name.
export function capital(words: string): string {
  const text = told(words);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// sentence begins with a capital, unless its first word is a name: one before a colon, or one of those that are given. A text
// without a capital is no sentence of its own.
export function sentence(words: string, ...names: string[]): string {
  const text = told(words);
  const first = /^[^\s:,;]*/.exec(text)?.[0] ?? '';
  return text[first.length] === ':' || names.includes(first) ? text : capital(text);
}
