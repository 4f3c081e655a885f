// A log's colours, as programs write them for a terminal. Nothing else that a terminal would do is done: what is no
// colour is left out, and text stays text.

export interface Run {
  text: string;
  colour: string; // of tokens.css, "" for the usual one
  bold: boolean;
}

const colours: Record<number, string> = {
  31: 'var(--failed)', 32: 'var(--succeeded)', 33: 'var(--waiting)', 34: 'var(--running)', 35: 'var(--suspended)', 36: 'var(--vc-4)', 90: 'var(--muted)',
};

// Control sequences with all their parameters (a cursor that hides is "?25l"), titles and links of a terminal, choices of
// a character set, and lone control characters.
const sequence = /\u001b\[([0-?]*)[ -/]*([@-~])|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[()][0-9A-B]|[\u0000-\u0008\u000b-\u001f\u007f]/g;

// plainCodes leaves out colours of a table of 256 and of three numbers, with the numbers that belong to them: these would
// be taken for other codes.
function plainCodes(list: string): number[] {
  const codes = list.split(';').map(Number);
  const out: number[] = [];
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i] ?? 0;
    if (code === 38 || code === 48 || code === 58) i += codes[i + 1] === 2 ? 4 : 2;
    else out.push(code);
  }
  return out;
}

export function runsOf(line: string): Run[] {
  const out: Run[] = [];
  let colour = '';
  let bold = false;
  let from = 0;
  const push = (to: number) => {
    if (to > from) out.push({ text: line.slice(from, to), colour, bold });
  };
  for (const m of line.matchAll(sequence)) {
    push(m.index);
    from = m.index + m[0].length;
    if (m[2] !== 'm') continue;
    for (const code of plainCodes(m[1] ?? '')) {
      if (code === 0) [colour, bold] = ['', false];
      else if (code === 1) bold = true;
      else if (code === 22) bold = false;
      else if (code === 39) colour = '';
      else colour = colours[code >= 91 && code <= 96 ? code - 60 : code] ?? colour;
    }
  }
  push(line.length);
  return out;
}

// plain is the text alone, for finding.
export function plain(line: string): string {
  return line.replace(sequence, '');
}
