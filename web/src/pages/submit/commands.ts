// commandsOf gives the commands that were typed as lines, one each. A script whose lines are indented, or that stood as one
// command of several lines, is one command: each command loses the space around it, and Python or a here-document needs it.
export function commandsOf(typed: string, before: string[]): string[] {
  const lines = typed.split('\n');
  const whole = before.some((c) => c.includes('\n')) || lines.some((l) => /^\s+\S/.test(l));
  return whole ? [typed] : lines;
}
