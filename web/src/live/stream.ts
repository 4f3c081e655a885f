// One event stream of the server, told on to whoever listens. It runs in a worker that all tabs share, or in the page
// itself where there is none. EventSource hides the status of an answer and gives up on the first 401, so this reads by fetch.

export type Notice =
  | { kind: 'events'; kinds: string[] } // what happened, since the last of these
  | { kind: 'anew' } // something may have been missed: everything is to be read again
  | { kind: 'state'; state: 'live' | 'lost' | 'over' }; // over: the session has ended

const silence = 25_000; // ms without a sign of life, which comes every 10 s
const gather = 250; // ms in which events become one notice

// pause is how long to wait before the next try, in ms: as long as the server asks for, else longer where it has refused.
export function pause(status: number, retryAfter: string | null): number {
  const asked = Number(retryAfter ?? '0') * 1000; // a date is no number, and is not heeded
  const own = status === 401 ? 15_000 : status === 429 || status === 503 ? 5000 : 500; // signing in hurries it
  return Math.min(Math.max(asked || 0, own), 60_000);
}

export class Stream {
  private tell: (n: Notice) => void;
  private kinds = new Set<string>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private wake: (() => void) | undefined;
  private last = '';
  private was: 'live' | 'lost' | 'over' | '' = '';

  constructor(tell: (n: Notice) => void) {
    this.tell = tell;
    void this.run();
  }

  // hurry tries at once instead of at the next turn, such as after signing in.
  hurry(): void {
    this.wake?.();
  }

  // again repeats how things stand, for one who came later.
  again(): void {
    if (this.was !== '') this.tell({ kind: 'state', state: this.was });
  }

  private state(state: 'live' | 'lost' | 'over'): void {
    if (this.was === state) return;
    const first = this.was === '';
    this.was = state;
    this.tell({ kind: 'state', state });
    if (state === 'live' && !first) this.tell({ kind: 'anew' });
  }

  private async run(): Promise<void> {
    for (;;) {
      const { status, after } = await this.read();
      this.state(status === 401 ? 'over' : 'lost');
      await new Promise<void>((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, pause(status, after) * (1 + Math.random()));
      });
      this.wake = undefined;
    }
  }

  // read follows the stream to its end and gives how it was answered: the status, 0 for none, and Retry-After.
  private async read(): Promise<{ status: number; after: string | null }> {
    const control = new AbortController();
    let dog = setTimeout(() => control.abort(), silence);
    try {
      const headers: Record<string, string> = this.last === '' ? {} : { 'Last-Event-ID': this.last };
      const r = await fetch('/api/v1/events?follow=true', { headers, signal: control.signal });
      const answer = { status: r.status, after: r.headers.get('Retry-After') };
      if (!r.ok || r.body === null) return answer;
      this.state('live');
      const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return answer;
        clearTimeout(dog);
        dog = setTimeout(() => control.abort(), silence);
        text += value;
        const frames = text.split('\n\n');
        text = frames.pop() ?? '';
        for (const f of frames) this.frame(f);
      }
    } catch {
      return { status: 0, after: null }; // no network, no server, or silence: all of them are tried again
    } finally {
      clearTimeout(dog);
    }
  }

  private frame(text: string): void {
    const field = (name: string) => text.split('\n').find((l) => l.startsWith(`${name}: `))?.slice(name.length + 2) ?? '';
    const id = field('id');
    if (id) this.last = id;
    switch (field('event')) {
      case 'event': {
        const event: { kind?: string } = JSON.parse(field('data'));
        if (event.kind) this.kinds.add(event.kind);
        this.timer ??= setTimeout(() => this.flush(), gather);
        return;
      }
      case 'resync':
        this.last = '';
        this.tell({ kind: 'anew' });
    }
  }

  private flush(): void {
    this.timer = undefined;
    this.tell({ kind: 'events', kinds: [...this.kinds] });
    this.kinds.clear();
  }
}
