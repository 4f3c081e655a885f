import { plain } from './ansi';
import { errors } from './frames';
import type { Lines } from './lines';

// What programs say when they fail, on whichever stream.
const clear = /Traceback \(most recent call last\)|\b[A-Z]\w*(?:Error|Exception)\b|\bpanic: |\b[Ff]atal(?: [Ee]rror)?: |\bFATAL\b|Segmentation fault|core dumped|CUDA error|[Oo]ut of memory|terminate called/;

// What on standard error is probably an error, and on standard output may be anything.
const likely = /\berrors?\b|\bfail(?:ed|ure)?\b|\bnot found\b|no such file|permission denied|\bcannot\b|\bkilled\b|\babort/i;

// firstErrorOf gives the line at which the reader of a failed task's log begins: the first that says clearly what is wrong, first
// of those on standard error; else what was said there last. -1 is none.
export function firstErrorOf(lines: Lines): number {
  let onError = -1;
  let onOutput = -1;
  let last = -1;
  for (const [i, line] of lines.list.entries()) {
    const text = plain(line);
    const isError = lines.from[i] === errors;
    if (clear.test(text)) {
      if (isError) return i;
      if (onOutput < 0) onOutput = i;
    }
    if (isError && onError < 0 && likely.test(text)) onError = i;
    if (isError && text.trim() !== '') last = i;
  }
  if (onError >= 0) return onError;
  return onOutput >= 0 ? onOutput : last;
}
