import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { Cookie } from '@playwright/test';
import tests from '../playwright.config';

interface Answer {
  id?: number;
  result?: Record<string, unknown>;
  error?: { message: string };
}

// Bare is a Chromium that is only told where to go. Playwright listens to the network, for which the browser notes the place in
// the source of each call: a script of half a megabyte is read a second time for that, which no user waits for.
export class Bare {
  private readonly dir = mkdtempSync(join(tmpdir(), 'comb-bare-'));
  private readonly child = spawn(
    tests.use?.launchOptions?.executablePath ?? 'chromium',
    ['--headless=new', '--no-sandbox', '--disable-gpu', '--no-first-run', '--remote-debugging-pipe', `--user-data-dir=${this.dir}`, 'about:blank'],
    { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] },
  );
  private readonly waiting = new Map<number, (a: Answer) => void>();
  private sent = 0;
  private unread = '';

  constructor() {
    (this.child.stdio[4] as Readable).setEncoding('utf8').on('data', (text: string) => {
      const parts = (this.unread + text).split('\0');
      this.unread = parts.pop() ?? '';
      for (const p of parts) {
        const a = JSON.parse(p) as Answer;
        this.waiting.get(a.id ?? 0)?.(a);
      }
    });
  }

  // call asks the browser for one thing of its DevTools protocol.
  private async call(method: string, params: object, sessionId?: string): Promise<Record<string, unknown>> {
    const id = ++this.sent;
    const answer = new Promise<Answer>((resolve) => this.waiting.set(id, resolve));
    (this.child.stdio[3] as Writable).write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    const a = await answer;
    this.waiting.delete(id);
    if (!a.result) throw new Error(`${method}: ${a.error?.message ?? 'no answer'}`);
    return a.result;
  }

  // fresh begins with nothing but the cookies of a session.
  async fresh(url: string, cookies: Cookie[]): Promise<string> {
    const { browserContextId } = await this.call('Target.createBrowserContext', {});
    const taken = cookies.map(({ name, value, httpOnly, secure, sameSite }) => ({ name, value, httpOnly, secure, sameSite, url }));
    await this.call('Storage.setCookies', { cookies: taken, browserContextId });
    return String(browserContextId);
  }

  // load is after how many milliseconds something holds of a page, on a processor that is some times slower.
  async load(context: string, url: string, expression: string, slower: number): Promise<number> {
    const { targetId } = await this.call('Target.createTarget', { url: 'about:blank', browserContextId: context });
    const session = String((await this.call('Target.attachToTarget', { targetId, flatten: true })).sessionId);
    await this.call('Emulation.setCPUThrottlingRate', { rate: slower }, session);
    const begin = Date.now();
    await this.call('Page.navigate', { url }, session);
    for (;;) {
      const { result } = await this.call('Runtime.evaluate', { expression, returnByValue: true }, session);
      if ((result as { value?: unknown }).value === true) break;
      if (Date.now() - begin > 30_000) throw new Error(`${url} never had ${expression}`);
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
    const took = Date.now() - begin;
    await this.call('Target.closeTarget', { targetId });
    return took;
  }

  async close(): Promise<void> {
    const gone = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill();
    await gone;
    rmSync(this.dir, { recursive: true, force: true, maxRetries: 5 });
  }
}
