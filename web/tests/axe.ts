import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expect, type Page } from '@playwright/test';

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Finding {
  id: string;
  help: string;
  nodes: { html: string; failureSummary?: string }[];
}

// accessible fails when axe finds anything on the page, in light or in dark.
export async function accessible(page: Page): Promise<void> {
  for (const scheme of ['light', 'dark'] as const) {
    await page.evaluate((s) => document.documentElement.setAttribute('data-mantine-color-scheme', s), scheme);
    await page.waitForFunction(() => document.getAnimations().every((a) => !(a instanceof CSSTransition))); // colours change in a moment
    const found = await page.evaluate(async (script) => {
      if (!('axe' in window)) window.eval(script);
      const axe = (window as unknown as { axe: { run: (d: Document, o: object) => Promise<{ violations: Finding[] }> } }).axe;
      return (await axe.run(document, { resultTypes: ['violations'] })).violations.map((v) => `${v.id}: ${v.help}\n${v.nodes.map((n) => `  ${n.html.slice(0, 200)}\n  ${n.failureSummary ?? ''}`).join('\n')}`);
    }, source);
    expect.soft(found, `axe in ${scheme}`).toEqual([]);
  }
}

// silent collects what a page's console complains of, and what its policy refuses: both must stay empty.
export function silent(page: Page): string[] {
  const said: string[] = [];
  page.on('console', (m) => {
    if (m.type() === 'error' && !/status of 4\d\d|ERR_CONNECTION|ERR_INCOMPLETE/.test(m.text())) said.push(m.text());
  });
  page.on('pageerror', (e) => said.push(String(e)));
  return said;
}
