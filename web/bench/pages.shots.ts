import { mkdirSync } from 'node:fs';
import { type Page, test } from '@playwright/test';

// Pictures of every page of the server of make demo-portal, at two widths, light and dark: for eyes.

const url = process.env.COMB_URL ?? 'http://127.0.0.1:8420';
const folder = process.env.COMB_SHOTS ?? 'test-results/shots';

async function enter(page: Page, user: string): Promise<void> {
  await page.goto(url);
  await page.getByLabel('User name').fill(user);
  await page.getByLabel('Password', { exact: true }).fill('a demo password');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
}

async function first(page: Page, query: string): Promise<string> {
  const list = await page.evaluate(async (q) => (await fetch(`/api/v1/jobs?${q}&limit=1`)).json(), query);
  return String((list as { jobs: { id: number }[] }).jobs[0]?.id ?? 1);
}

// What is opened on a page before its picture is taken.
const opens: Record<string, (page: Page) => Promise<void>> = {
  token: async (page) => {
    await page.getByRole('button', { name: 'Create a token' }).click();
    await page.getByRole('dialog').getByLabel('Name').fill(`of-a-picture-${Date.now()}`);
    await page.getByRole('dialog').getByRole('button', { name: 'Create a token' }).click();
    await page.getByRole('dialog').locator('pre').waitFor();
  },
  'users-new': (page) => page.getByRole('button', { name: 'Create users' }).click(),
  plan: async (page) => {
    const editor = page.getByRole('textbox', { name: 'Cluster file (YAML)' });
    const file = await page.evaluate(async () => (await fetch('/api/v1/config/file')).text());
    await editor.click();
    await page.keyboard.press('Control+a');
    await page.keyboard.insertText(file.replace(/cellNumber: 2/g, 'cellNumber: 1'));
    await page.getByRole('region', { name: 'What would change' }).getByRole('listitem').first().waitFor();
  },
};

test('pictures', async ({ browser }) => {
  mkdirSync(folder, { recursive: true });
  const page = await (await browser.newContext()).newPage();
  await page.goto(url);
  await page.getByLabel('User name').waitFor();
  const door = async (name: string) => page.screenshot({ path: `${folder}/sign-in-${name}.png` });
  await door('light-1440');
  await enter(page, 'alice');
  const waiting = await first(page, 'state=Waiting&user=alice');
  const own = page;
  const admin = await (await browser.newContext()).newPage();
  await enter(admin, 'carol');
  const running = await first(admin, 'state=Active');
  const failed = await first(admin, 'state=Failed');
  const pages: [string, Page, string][] = [
    ['home', own, '/'], ['jobs', admin, '/jobs'], ['job-waiting', own, `/jobs/${waiting}`], ['job-running', admin, `/jobs/${running}`],
    ['job-failed', admin, `/jobs/${failed}`], ['job-log', admin, `/jobs/${running}?tab=log`], ['job-events', admin, `/jobs/${running}?tab=events`],
    ['job-file', admin, `/jobs/${running}?tab=file`], ['submit', own, '/submit'], ['vcs', admin, '/vcs'], ['vc', admin, '/vcs/vision'],
    ['nodes', admin, '/nodes?node=a1'], ['nodes-virtual', admin, '/nodes?as=virtual'], ['nodes-table', admin, '/nodes?as=table'],
    ['users', admin, '/users'], ['tokens', own, '/tokens'], ['configuration', admin, '/configuration'],
    ['system', admin, '/system'], ['token', own, '/tokens'], ['users-new', admin, '/users'], ['plan', admin, '/configuration'],
  ];
  for (const scheme of ['light', 'dark'] as const) {
    for (const width of [1440, 390]) {
      for (const [name, p, path] of pages) {
        await p.setViewportSize({ width, height: 900 });
        await p.goto(url + path);
        await p.evaluate((s) => document.documentElement.setAttribute('data-mantine-color-scheme', s), scheme);
        await p.getByRole('heading').first().waitFor();
        await opens[name]?.(p);
        await p.waitForTimeout(1200);
        await p.screenshot({ path: `${folder}/${name}-${scheme}-${width}.png`, fullPage: width === 390 });
      }
    }
  }
});
