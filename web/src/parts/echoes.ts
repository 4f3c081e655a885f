// Echoes knows what an editor has told and has not heard back yet. What is told comes back through the page, maybe after the
// next letter was typed: taken for a change from outside it would take that letter away.
export class Echoes {
  private told: string[] = [];

  tell(text: string): void {
    this.told.push(text);
  }

  // hear reports whether a text is one that was told; those before it do not come any more, and none when it is what the
  // editor has now.
  hear(text: string, now: string): boolean {
    const at = this.told.indexOf(text);
    this.told = at < 0 || text === now ? [] : this.told.slice(at + 1);
    return at >= 0;
  }
}
