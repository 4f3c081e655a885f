// What strangers write. None of it may be more than text, wherever it stands, nor move what stands beside it.

// texts are for fields that take any line.
export const texts = [
  '<img src=x onerror="window.hit=1">',
  '"><script>window.hit=1</script>',
  '\'-->]]></textarea></style><svg onload=window.hit=1>',
  'javascript:window.hit=1//${7*7}{{7*7}}<%=7*7%>',
  '&lt;b&gt; %3Cb%3E \\u003cb\\u003e',
  'פרק אחד: מה שנכתב מימין', // from right to left
  `Z${'\u0301\u0323\u0337'.repeat(12)}algo 👩‍👩‍👧‍👦🏳️‍🌈`,
  `${'W'.repeat(180)}`,
  '662E41',
  '__proto__',
];

// names are for what takes letters, digits, points and lines alone: keys of objects, numbers of other kinds, and no place to break.
export const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'null', 'undefined', 'true', '662E41', '0x1F', `long-${'w'.repeat(58)}`];

// userNames begin and end with a letter or digit.
export const userNames = ['constructor', 'null', 'undefined', '662E41', '007', `long-${'w'.repeat(58)}`];

// log is what a task prints, as bytes of printf: what a terminal would obey, text that is none, a line without an end.
export const log = [
  '<img src=x onerror=window.hit=1>\\n',
  '\\033[31mred\\033[0m \\033]0;title\\007\\033]8;;javascript:window.hit=1\\033\\\\link\\033]8;;\\033\\\\ \\033[2J\\033[H\\033[?25l cleared\\n',
  'nul \\000 bell \\007 back \\010\\010 feed \\014 bytes \\377\\376\\300\\257\\n',
  '\\342\\200\\256from the right\\342\\200\\254 \\342\\200\\213 \\357\\273\\277 \\314\\201\\314\\243\\n',
  'one\\rtwo\\rthree\\n',
];
